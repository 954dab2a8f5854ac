//! The model in the form that `transformers` reads.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use shoal_actors::coordinator::Read;
use shoal_config::hf::SpecialTokens;
use shoal_config::spec::TokenizerSpec;
use shoal_data::manifest::TOKENIZER_FILE;
use shoal_data::{Manifest, Tokenizer};
use shoal_model::hf::{self, Part};
use shoal_plan::blocks::ModelTable;
use shoal_plan::job::{Job, TokenizerKind};

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
    let found = tokenizer(Arc::clone(&job)).await;
    let tokens = text_tokens(&job, found.as_ref());
    let has_tokenizer = found.is_some();
    let small = [
        (hf::CONFIG, true),
        (hf::GENERATION, hf::generation_config_json(&tokens).is_some()),
        (hf::TOKENIZER, has_tokenizer),
        (hf::TOKENIZER_CONFIG, has_tokenizer),
        (hf::INDEX, parts.len() > 1),
    ];
    let names = small.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned());
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
            let mut config = hf::config_json(&job.spec, dtype);
            let found = tokenizer(Arc::clone(&job)).await;
            hf::mark(&mut config, &text_tokens(&job, found.as_ref()));
            Ok(file_of(&config))
        }
        hf::GENERATION => {
            let found = tokenizer(Arc::clone(&job)).await;
            match hf::generation_config_json(&text_tokens(&job, found.as_ref())) {
                Some(config) => Ok(file_of(&config)),
                None => Err(unknown(&name, "nothing says which token ends a text")),
            }
        }
        hf::TOKENIZER | hf::TOKENIZER_CONFIG => {
            let found = tokenizer(Arc::clone(&job)).await;
            let found = found.ok_or_else(|| unknown(&name, "the data was not made with one that is here"))?;
            let Some(definition) = found.definition().filter(|_| name == hf::TOKENIZER) else {
                let tokens = text_tokens(&job, Some(&found));
                let config = hf::tokenizer_config_json(&tokens, job.spec.model.context(), |token| found.name_of(token));
                return Ok(file_of(&config));
            };
            Ok(([(CONTENT_TYPE, "application/json")], definition.to_vec()).into_response())
        }
        hf::INDEX => Ok(file_of(&hf::index_json(&table, &job.spec, &dtypes, &parts))),
        _ => {
            let names = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ");
            let Some(part) = parts.iter().find(|part| part.name == name).cloned() else {
                return Err(Fault::Malformed(format!("there is no file {name} in this form; there are {names}")));
            };
            let source = weights(&app, &id, form.step).await?;
            let bytes = hf::part_len(source.reader.table(), &job.spec, &part, &dtypes);
            Ok(stream(source, bytes, move |reader, read, target| {
                hf::write_part((reader.table(), &job.spec), &part, &dtypes, read, target)
            }))
        }
    }
}

/// As `transformers` writes such files.
fn file_of(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

fn unknown(name: &str, why: &str) -> Fault {
    Fault::Malformed(format!("there is no {name} of this job: {why}"))
}

/// What begins and ends a text of a job, whose tokenizer was `found` if it has a file that is here.
fn text_tokens(job: &Job, found: Option<&Tokenizer>) -> SpecialTokens {
    let special = found.map(|found| found.special_tokens().into_values().collect());
    hf::text_tokens(job, special.as_ref())
}

/// What made the tokens of a job's data, if it is a `tokenizer.json` that is still what it was.
async fn tokenizer(job: Arc<Job>) -> Option<Tokenizer> {
    let load = move || {
        let recorded = job.data.tokenizer.filter(|made| made.kind == TokenizerKind::Hf)?;
        let path = match &job.spec.data.tokenizer {
            Some(TokenizerSpec::Hf(path)) => path.clone(),
            Some(TokenizerSpec::Bytes | TokenizerSpec::Gpt2 | TokenizerSpec::O200k) | None => {
                Manifest::read(&job.spec.data.path).ok()?.1.join(TOKENIZER_FILE)
            }
        };
        match Tokenizer::open(&TokenizerSpec::Hf(path.clone())) {
            Ok(found) if found.facts().digest == recorded.digest => Some(found),
            Ok(_) => {
                tracing::warn!(path = %path.display(), "not the tokenizer that the job's data was made with");
                None
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the tokenizer of the job's data is not here");
                None
            }
        }
    };
    tokio::task::spawn_blocking(load).await.ok().flatten()
}

fn parts(job: &Job, form: &Form) -> Result<Vec<Part>, Fault> {
    if !job.spec.model.is_of_transformers() {
        return Err(Fault::Malformed("transformers has no GPT-2 without biases; the state has the tensors".to_owned()));
    }
    let table = ModelTable::of(&job.spec.model);
    Ok(hf::parts(&table, &job.spec, &form.dtypes(job)?, form.most()))
}
