//! Written state, block by block.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use shoal_plan::space::{Interval, Kind};

use super::App;
use super::call;
use super::fault::Fault;
use super::reader::StateReader;

/// One kind of a block's whole space as little-endian f32.
pub(super) async fn block(
    State(app): State<App>,
    Path((id, step, block, kind)): Path<(String, String, String, String)>,
) -> Result<Response, Fault> {
    let kind = kind_of(&kind)?;
    let reader = StateReader::open(&app, call::job_id(&id)?, Some(number("step", &step)?)).await?;
    let (block, whole) = reader.block(kind, number("block", &block)? as u32)?;
    reader.complete(block, kind, whole)?;
    let bytes = whole.len() * 4;
    let download = app.downloads.begin();
    let going = download.clone();
    let chunks = futures_util::stream::try_unfold(Some(whole), move |rest| {
        let (reader, download) = (reader.clone(), going.clone());
        async move {
            let Some(rest) = rest else { return Ok::<_, Fault>(None) };
            let chunk = reader.read(block, kind, rest).await.inspect_err(|fault| download.broke_off(fault))?;
            let next = rest.start + chunk.len() as u64 / 4;
            Ok(Some((chunk, (next < rest.end).then(|| Interval::new(next, rest.end)))))
        }
    });
    Ok(download.answer(Body::from_stream(chunks), bytes))
}

fn kind_of(word: &str) -> Result<Kind, Fault> {
    match word {
        "weight" => Ok(Kind::Weight),
        "moment1" => Ok(Kind::Moment1),
        "moment2" => Ok(Kind::Moment2),
        "factors" => Ok(Kind::Factors),
        other => Err(Fault::Malformed(format!(
            "`{other}` is no kind of state; kinds are weight, moment1, moment2, factors, as far as the optimizer has them"
        ))),
    }
}

fn number(what: &str, text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| Fault::Malformed(format!("`{text}` is no {what}: it must be a whole number")))
}
