use std::convert::Infallible;
use std::fs;
use std::path::Path;

use shoal_config::JobSpec;
use shoal_config::llmc::Version;
use shoal_config::spec::{Dtype, InitSpec};
use shoal_exact::philox::philox;
use shoal_kernels::Half;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;
use shoal_plan::weights::Dtypes;

use super::*;
use crate::testing::{Values, in_memory, job, weights};
use crate::{hf, llmc};

mod llama;
mod types;

/// Writes a job's weights into a directory in one of the forms.
struct Model {
    spec: JobSpec,
    table: ModelTable,
    weights: Values,
    dir: tempfile::TempDir,
}

impl Model {
    fn of(spec: JobSpec) -> Self {
        let table = ModelTable::of(&spec.model);
        let weights = weights(&spec, &table);
        Self { spec, table, weights, dir: tempfile::tempdir().expect("temp dir") }
    }

    fn read(&self) -> impl Fn(BlockId, Interval, &mut [f32]) -> Result<(), Infallible> {
        |block, interval, out| {
            out.copy_from_slice(&self.weights[block.0 as usize][interval.range()]);
            Ok(())
        }
    }

    fn hf(&self, dtype: Dtype, most: u64) -> InitSpec {
        let dtypes = &Dtypes::All(dtype);
        let config = hf::config_json(&self.spec, dtype).to_string();
        fs::write(self.dir.path().join("config.json"), config).expect("written");
        let parts = hf::parts(&self.table, &self.spec, dtypes, most);
        for part in &parts {
            let mut file = Vec::new();
            hf::write_part((&self.table, &self.spec), part, dtypes, self.read(), in_memory(&mut file))
                .expect("memory takes it");
            fs::write(self.dir.path().join(&part.name), file).expect("written");
        }
        if parts.len() > 1 {
            let index = hf::index_json(&self.table, &self.spec, dtypes, &parts);
            fs::write(self.dir.path().join(hf::INDEX), index.to_string()).expect("written");
        }
        InitSpec::Hf(self.dir.path().to_owned())
    }

    fn llmc(&self, version: Version) -> InitSpec {
        let header = llmc::header(&self.spec, version, None).expect("a GPT-2");
        let mut file = Vec::new();
        llmc::write_model((&self.table, &self.spec), &header, self.read(), in_memory(&mut file))
            .expect("memory takes it");
        assert_eq!(header.bytes(), Some(file.len() as u64));
        let path = self.dir.path().join("model_00000000.bin");
        fs::write(&path, file).expect("written");
        InitSpec::LlmC(path)
    }

    fn open(&self, init: &InitSpec) -> Result<Files, FilesError> {
        Files::open(init, &self.spec.model, &self.table).map(|files| files.expect("files are named"))
    }

    /// Every interval of some cuts is what was written.
    fn assert_same(&self, files: &Files, cuts: u64, rounded: impl Fn(f32) -> f32) {
        for block in &self.table.blocks {
            let mut at = 0;
            for i in 0..=cuts {
                let [word, _] = philox(i, [u64::from(block.id.0), cuts]);
                let end = if i == cuts { block.len } else { at + word % (block.len - at) };
                if at == end {
                    continue;
                }
                let interval = Interval::new(at, end);
                let mut found = vec![f32::NAN; interval.len() as usize];
                files.read(block.id, interval, &mut found).expect("readable");
                let wanted = self.weights[block.id.0 as usize][interval.range()].iter().map(|x| rounded(*x));
                assert!(wanted.eq(found), "{} {interval}", block.id);
                at = end;
            }
        }
    }
}

#[test]
fn any_interval_is_read_from_every_form() {
    let model = Model::of(job(2, 3, 48, 10, 65, 0.0));
    let bf16 = |x: f32| Half::Bf16.nearest(x);
    let f16 = |x: f32| Half::F16.nearest(x);
    for cuts in [0, 1, 7] {
        model.assert_same(&model.open(&model.hf(Dtype::F32, u64::MAX)).expect("good"), cuts, |x| x);
        model.assert_same(&model.open(&model.llmc(Version::Single)).expect("good"), cuts, |x| x);
        model.assert_same(&model.open(&model.llmc(Version::Half)).expect("good"), cuts, bf16);
        model.assert_same(&model.open(&model.hf(Dtype::F16, u64::MAX)).expect("good"), cuts, f16);
    }
    fs::remove_file(model.dir.path().join(hf::MODEL)).expect("removed");
    model.assert_same(&model.open(&model.hf(Dtype::Bf16, 20_000)).expect("good"), 3, bf16);
}

/// FI-4 (read once).
#[test]
fn pieces_together_read_the_file_about_once() {
    let model = Model::of(job(2, 4, 128, 32, 256, 0.0));
    for init in [model.hf(Dtype::F32, u64::MAX), model.llmc(Version::Single)] {
        let bytes = model.table.parameters() * 4;
        for pieces in [1, 2, 4] {
            let mut total = 0;
            for piece in 0..pieces {
                let files = model.open(&init).expect("good");
                for block in &model.table.blocks {
                    let cut = |i: u64| block.len / 16 * i / pieces * 16;
                    let interval =
                        Interval::new(cut(piece), if piece + 1 == pieces { block.len } else { cut(piece + 1) });
                    files.read(block.id, interval, &mut vec![0.0; interval.len() as usize]).expect("readable");
                }
                let share = files.bytes_read() as f64 / bytes as f64;
                assert!(share < 1.1 / pieces as f64, "piece {piece} of {pieces}: {share}");
                total += files.bytes_read();
            }
            let share = total as f64 / bytes as f64;
            assert!((1.0..1.06).contains(&share), "{pieces} pieces read {share} of the file");
        }
    }
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    // The file by itself: nothing but its tensors says what it is.
    let whole = |model: &Model| {
        model.hf(Dtype::F32, u64::MAX);
        fs::remove_file(model.dir.path().join(hf::CONFIG)).expect("written");
        InitSpec::Hf(model.dir.path().join(hf::MODEL))
    };
    let model = Model::of(job(1, 2, 16, 8, 65, 0.0));
    let other = Model::of(job(2, 2, 16, 9, 66, 0.0));
    let Err(FilesError::Tensors { wrong, .. }) = other.open(&whole(&model)) else { panic!("another model") };
    let all = wrong.join("\n");
    assert!(all.contains("transformer.wte.weight has shape [65, 16], and [66, 16] is needed"), "{all}");
    assert!(all.contains("transformer.wpe.weight has shape [8, 16], and [9, 16] is needed"), "{all}");
    assert_eq!(wrong.iter().filter(|line| line.ends_with("is missing")).count(), 12, "{all}");
    let Err(FilesError::Tensors { wrong, .. }) = model.open(&whole(&other)) else { panic!("another model") };
    assert_eq!(wrong.iter().filter(|line| line.ends_with("is no part of it")).count(), 12, "{}", wrong.join("\n"));
}

#[test]
fn what_shapes_do_not_tell_is_told_by_the_configuration() {
    let model = Model::of(job(1, 2, 16, 8, 65, 0.0));
    let init = model.hf(Dtype::F32, u64::MAX);
    let other = Model::of(job(1, 4, 16, 8, 65, 0.0));
    let Err(FilesError::Config { source, .. }) = other.open(&init) else { panic!("other heads") };
    assert!(source.to_string().ends_with("config.json, its heads is 2, and the job's 4"), "{source}");
}

#[test]
fn a_file_by_itself_is_held_against_the_configuration_beside_it() {
    let model = Model::of(job(1, 2, 16, 8, 65, 0.0));
    model.hf(Dtype::F32, u64::MAX);
    let init = InitSpec::Hf(model.dir.path().join(hf::MODEL));
    model.open(&init).expect("the same");
    let other = Model::of(job(1, 4, 16, 8, 65, 0.0));
    assert!(matches!(other.open(&init), Err(FilesError::Config { .. })), "other heads");
}

#[test]
fn weights_that_are_not_finite_are_named() {
    let mut model = Model::of(job(1, 2, 32, 8, 65, 0.0));
    let place = model.table.blocks[1].place("mlp.proj.weight");
    for bad in [f32::NAN, f32::NEG_INFINITY] {
        model.weights[1][place.start as usize + 33] = bad;
        for init in [model.hf(Dtype::Bf16, u64::MAX), model.llmc(Version::Single)] {
            let error = model.open(&init).expect("good shapes").facts(&model.table, |_| true).expect_err("spoilt");
            let said = error.to_string();
            assert!(matches!(error, FilesError::NotFinite { .. }), "{said}");
            assert!(said.contains("h.0.mlp.c_proj.weight") && said.contains(&bad.to_string()), "{said}");
        }
    }
}

/// Facts of the files, and what is read under them.
#[test]
fn files_that_were_changed_are_refused_by_whoever_reads_the_change() {
    let model = Model::of(job(1, 2, 32, 8, 300, 0.0));
    let init = model.hf(Dtype::F32, u64::MAX);
    let files = model.open(&init).expect("good");
    let mut elements = 0;
    let facts = files.facts(&model.table, |more| {
        elements += more;
        true
    });
    let facts = facts.expect("readable");
    assert_eq!(elements, model.table.blocks.iter().map(|block| block.len).sum::<u64>());
    assert!(matches!(files.facts(&model.table, |_| false), Err(FilesError::Stopped)));
    let checkpoint = model.open(&model.llmc(Version::Single)).expect("good").facts(&model.table, |_| true);
    assert_eq!(checkpoint.expect("readable").digest(), facts.digest());
    let read = |files: &Files, interval: Interval| {
        let mut found = vec![f32::NAN; interval.len() as usize];
        files.read_submitted(&model.table, &facts, (BlockId(1), interval), &mut found)?;
        assert_eq!(found, model.weights[1][interval.range()]);
        Ok::<_, FilesError>(())
    };
    let len = model.table.blocks[1].len;
    assert!(facts.segment < len, "more than one segment a block");
    for interval in [Interval::new(0, len), Interval::new(16, 48), Interval::new(facts.segment - 16, len - 16)] {
        read(&files, interval).expect("what was submitted");
    }
    with(&model.dir.path().join(hf::MODEL), |tensors| {
        let bias = tensors.iter_mut().find(|(name, ..)| name.ends_with("h.0.mlp.c_proj.bias")).expect("a bias");
        bias.2[0] ^= 1;
    });
    let files = model.open(&init).expect("the same tensors");
    read(&files, Interval::new(0, 64)).expect("not near the change");
    let Err(error @ FilesError::Changed { .. }) = read(&files, Interval::new(0, len)) else { panic!("changed") };
    assert!(error.to_string().contains("differ from those that the job was submitted with"), "{error}");
}

/// Takes a safetensors file apart and puts it together with other tensors.
fn with(path: &Path, change: impl FnOnce(&mut Vec<(String, Vec<usize>, Vec<u8>)>)) {
    let bytes = fs::read(path).expect("readable");
    let parsed = safetensors::SafeTensors::deserialize(&bytes).expect("our own file");
    let mut tensors: Vec<_> =
        parsed.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec(), view.data().to_vec())).collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, shape, data)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), data);
        (name, view.expect("a tensor"))
    });
    fs::write(path, safetensors::serialize(views, None).expect("serialised")).expect("written");
}

#[test]
fn old_files_have_no_prefix_and_constants_beside_the_weights() {
    let model = Model::of(job(1, 2, 16, 4, 65, 0.0));
    let init = model.hf(Dtype::F32, u64::MAX);
    let path = model.dir.path().join(hf::MODEL);
    with(&path, |tensors| {
        for (name, ..) in tensors.iter_mut() {
            *name = name.trim_start_matches("transformer.").to_owned();
        }
        tensors.push(("h.0.attn.bias".to_owned(), vec![1, 1, 4, 4], vec![0; 64]));
        tensors.push(("h.0.attn.masked_bias".to_owned(), vec![1], vec![0; 4]));
        let table = tensors.iter().find(|(name, ..)| name == "wte.weight").expect("a table").clone();
        tensors.push((hf::HEAD.to_owned(), table.1, table.2));
    });
    let files = model.open(&init).expect("a good file");
    model.assert_same(&files, 2, |x| x);
    assert!(files.head_is_tied().expect("readable"));
    with(&path, |tensors| {
        let head = tensors.iter_mut().find(|(name, ..)| name == hf::HEAD).expect("a head");
        head.2[65 * 16 * 4 - 1] ^= 1;
    });
    let files = model.open(&init).expect("a good file");
    assert!(!files.head_is_tied().expect("readable"));
    assert!(matches!(files.facts(&model.table, |_| true), Err(FilesError::Untied { .. })));
}

#[test]
fn a_longer_position_table_is_cut() {
    let long = Model::of(job(1, 2, 16, 12, 65, 0.0));
    let mut short = Model::of(job(1, 2, 16, 7, 65, 0.0));
    let wpe = |model: &Model| map::param(&model.table.blocks[0], "wpe").interval.range();
    let rows = long.weights[0][wpe(&long)][..7 * 16].to_vec();
    let place = wpe(&short);
    short.weights[0][place].copy_from_slice(&rows);
    for init in [long.hf(Dtype::F32, u64::MAX), long.llmc(Version::Single)] {
        short.assert_same(&short.open(&init).expect("good"), 2, |x| x);
    }
}

#[test]
fn an_index_names_files_of_its_directory_only() {
    let model = Model::of(job(1, 2, 16, 4, 65, 0.0));
    let init = InitSpec::Hf(model.dir.path().to_owned());
    let config = hf::config_json(&model.spec, Dtype::F32).to_string();
    fs::write(model.dir.path().join("config.json"), config).expect("written");
    let missing = model.open(&init).expect_err("nothing there").to_string();
    assert!(missing.contains("model.safetensors cannot be read"), "{missing}");
    fs::write(model.dir.path().join(hf::INDEX), r#"{"weight_map":{"a":"../model.safetensors"}}"#).expect("written");
    let found = model.open(&init).expect_err("a way out").to_string();
    assert!(found.contains("it names \"../model.safetensors\", which is no file of this directory"), "{found}");
}
