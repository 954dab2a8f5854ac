//! The model as an llm.c checkpoint.
//!
//! LC-2 (a model that was trained fits into a file): its tensors were held in memory, so their bytes can be counted.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use shoal_actors::coordinator::Read;
use shoal_config::llmc::Version;
use shoal_model::llmc;
use shoal_plan::job::Job;

use super::App;
use super::call;
use super::export::{Form, stream, weights};
use super::fault::Fault;

pub(super) async fn model(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(form): Query<Form>,
) -> Result<Response, Fault> {
    let job = call::job_id(&id)?;
    let job = app.read(|reply| Read::Job(job, reply)).await?;
    let version = version(&job, &form)?;
    let source = weights(&app, &id, form.step).await?;
    let padded = job.weights.as_ref().and_then(|weights| weights.padded_vocab);
    let gpt2 = || {
        Fault::Malformed(
            "llm.c has GPT-2 only, with biases and one table for both ends, and the job's model is another".to_owned(),
        )
    };
    let header = llmc::header(&job.spec, version, padded).ok_or_else(gpt2)?;
    let bytes = header.bytes().expect("LC-2 (a model that was trained fits into a file)");
    Ok(stream(source, bytes, move |reader, read, target| {
        llmc::write_model((reader.table(), &reader.job().spec), &header, read, target)
    }))
}

/// The version that is asked for, or else the one for what the job began with.
fn version(job: &Job, form: &Form) -> Result<Version, Fault> {
    let none = || Fault::Malformed("llm.c has no fp16; there are fp32 and bf16".to_owned());
    match form.dtype()? {
        Some(dtype) => Version::of(dtype).ok_or_else(none),
        None => Ok(job.export_dtypes().llmc()),
    }
}
