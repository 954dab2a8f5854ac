//! Tables.
//!
//! PQ-1 (the column's type was checked): a table whose column holds no strings is not opened.

use std::fs::File;
use std::path::Path;

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{BadDocument, Piece, Place, Reading, SourceError, Span, Stop, Take};

/// Rows read at a time.
const ROWS: usize = 256;

/// Bytes of the column in each row group of a table.
pub(crate) fn row_groups(path: &Path, column: &str) -> Result<Vec<u64>, SourceError> {
    let table = Table::open(path, column)?;
    let groups = table.file.metadata().row_groups().iter();
    Ok(groups.map(|group| u64::try_from(group.column(table.column).uncompressed_size()).unwrap_or(0)).collect())
}

/// The documents of a span of row groups.
pub(super) fn each<E>(path: &Path, span: &Span, reading: &Reading, take: &mut Take<'_, E>) -> Result<(), Stop<E>> {
    let column = &reading.field;
    let wrong =
        |error: parquet::errors::ParquetError| SourceError::Parquet { path: path.to_owned(), found: error.to_string() };
    let table = Table::open(path, column)?;
    let groups = table.file.metadata().row_groups();
    // A footer can say anything.
    let before = groups[..span.from as usize].iter().map(|group| group.num_rows().max(0) as u64);
    let mut row = before.fold(0, u64::saturating_add);
    for group in span.from..span.to {
        let group = table.file.get_row_group(group as usize).map_err(wrong)?;
        let ColumnReader::ByteArrayColumnReader(mut reader) = group.get_column_reader(table.column).map_err(wrong)?
        else {
            unreachable!("PQ-1 (the column's type was checked)")
        };
        loop {
            let (mut values, mut levels): (Vec<ByteArray>, Vec<i16>) = (Vec::new(), Vec::new());
            let (rows, ..) =
                reader.read_records(ROWS, (table.top > 0).then_some(&mut levels), None, &mut values).map_err(wrong)?;
            if rows == 0 {
                break;
            }
            let mut values = values.iter();
            let present = (0..rows).map(|at| levels.get(at).is_none_or(|level| *level == table.top));
            for there in present {
                row = row.saturating_add(1);
                let text = if there { values.next().map(|value| std::str::from_utf8(value.data())) } else { None };
                let bad = |what: String| BadDocument { path: path.to_owned(), place: Place::Row(row), what };
                take(match text {
                    Some(Ok(text)) => match reading.refuses(text) {
                        None => Ok(Piece { text, begins: true, ends: true }),
                        Some((_, what)) => Err(bad(what)),
                    },
                    Some(Err(_)) => Err(bad("it is not UTF-8".to_owned())),
                    None => Err(bad(format!("column \"{column}\" is null"))),
                })
                .map_err(Stop::Taker)?;
            }
        }
    }
    Ok(())
}

struct Table {
    file: SerializedFileReader<File>,
    column: usize,
    /// Definition level of a value that is there; with a lower one it, or something around it, is null.
    top: i16,
}

impl Table {
    fn open(path: &Path, column: &str) -> Result<Self, SourceError> {
        let wrong = |found: String| SourceError::Parquet { path: path.to_owned(), found };
        let file = File::open(path).map_err(SourceError::read(path))?;
        let file = SerializedFileReader::new(file).map_err(|error| wrong(format!("it is no Parquet file: {error}")))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
        let index = names.iter().position(|name| name == column).ok_or_else(|| {
            wrong(format!("it has no column \"{column}\" but {}; name one with --field", names.join(", ")))
        })?;
        let descriptor = schema.column(index);
        if descriptor.physical_type() != Type::BYTE_ARRAY || descriptor.max_rep_level() > 0 {
            return Err(wrong(format!(
                "column \"{column}\" holds {}, not a string a row; name another with --field",
                descriptor.physical_type()
            )));
        }
        Ok(Self { file, column: index, top: descriptor.max_def_level() })
    }
}
