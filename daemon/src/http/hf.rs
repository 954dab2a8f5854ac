//! The model in the form that `transformers` reads.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use shoal_actors::coordinator::Read;
use shoal_model::hf::{self, Part};
use shoal_plan::blocks::ModelTable;
use shoal_plan::job::Job;

use super::App;
use super::call;
use super::export::{Form, stream, weights};
use super::fault::Fault;

/// Names of the files that make up the form.
pub(super) async fn files(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(form): Query<Form>,
) -> Result<Json<Vec<String>>, Fault> {
    let id = call::job_id(&id)?;
    let job = app.read(|reply| Read::Job(id, reply)).await?;
    let parts = parts(&job, &form)?;
    let index = (parts.len() > 1).then(|| hf::INDEX.to_owned());
    let names = [hf::CONFIG.to_owned()].into_iter().chain(index);
    Ok(Json(names.chain(parts.into_iter().map(|part| part.name)).collect()))
}

/// One of them.
pub(super) async fn file(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
    Query(form): Query<Form>,
) -> Result<Response, Fault> {
    let job = call::job_id(&id)?;
    let job = app.read(|reply| Read::Job(job, reply)).await?;
    let (dtypes, parts) = (form.dtypes(&job)?, parts(&job, &form)?);
    let table = ModelTable::of(&job.spec.model);
    match name.as_str() {
        hf::CONFIG => {
            let dtype = hf::main_dtype(&table, &job.spec, &dtypes);
            Ok(Json(hf::config_json(&job.spec, dtype)).into_response())
        }
        hf::INDEX => Ok(Json(hf::index_json(&table, &job.spec, &dtypes, &parts)).into_response()),
        _ => {
            let names = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ");
            let Some(part) = parts.iter().find(|part| part.name == name).cloned() else {
                return Err(Fault::Malformed(format!("there is no file {name} in this form; there are {names}")));
            };
            let source = weights(&app, &id, form.step).await?;
            let bytes = hf::part_len(source.reader.table(), &job.spec, &part, &dtypes);
            Ok(stream(source, bytes, move |reader, read, out| {
                hf::write_part((reader.table(), &job.spec), &part, &dtypes, read, out)
            }))
        }
    }
}

fn parts(job: &Job, form: &Form) -> Result<Vec<Part>, Fault> {
    let table = ModelTable::of(&job.spec.model);
    Ok(hf::parts(&table, &job.spec, &form.dtypes(job)?, form.most()))
}
