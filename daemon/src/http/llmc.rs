//! The model as an llm.c checkpoint.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use shoal_config::llmc::Version;
use shoal_model::llmc;

use super::App;
use super::export::{Form, stream, weights};
use super::fault::Fault;

pub(super) async fn model(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(form): Query<Form>,
) -> Result<Response, Fault> {
    let none = || Fault::Malformed("llm.c has no fp16; there are fp32 and bf16".to_owned());
    let version = Version::of(form.dtype()?).ok_or_else(none)?;
    let source = weights(&app, &id, form.step).await?;
    let gpt2 = || Fault::Malformed("llm.c has GPT-2 only, and the job's model is another".to_owned());
    let header = llmc::header(&source.reader.job().spec, version).ok_or_else(gpt2)?;
    let bytes = header.bytes().unwrap_or_default();
    Ok(stream(source, bytes, move |reader, read, out| {
        llmc::write_model((reader.table(), &reader.job().spec), &header, read, out)
    }))
}
