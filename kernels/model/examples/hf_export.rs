//! Writes a small model, trained for three steps on noise, as Hugging Face reads it, with some tokens and our logits for them, for
//! `scripts/check_hf_export.py`: `cargo run -p shoal-model --example hf_export -- DIR [PRESET]`.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;

use shoal_config::spec::Dtype;
use shoal_kernels::{Arena, Budget, Device, Tier};
use shoal_model::files::{Aside, Destination};
use shoal_model::hf;
use shoal_model::solo::Solo;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::space::Kind;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: hf_export DIR [PRESET]")?);
    let preset = std::env::args().nth(2).unwrap_or("demo".to_owned());
    fs::create_dir_all(&dir)?;
    let spec = shoal_config::preset(&preset, &dir).ok_or("no such preset")?;
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 100_000,
        validation_digest: Digest::default(),
        validation_tokens: 0,
        tokenizer: None,
    };
    let job = Job { spec, data, weights: None };
    let table = ModelTable::of(&job.spec.model);
    let arena = Arena::new(Tier::Device, 1 << 32, &Budget::new(1 << 32));
    let device = Device::cpu(1, &arena)?;
    let mut solo = Solo::new(&device, &arena, &job)?;

    let context = shoal_plan::batch::context(&job.spec) as u32;
    for _ in 0..3 {
        // Steps, so that no bias is zero.
        solo.step(&device, &mut |sample| {
            (0..=u64::from(context)).map(|i| ((sample * 31 + i * i) % 251) as u32).collect()
        })?;
    }
    let tokens: Vec<u32> = (0..2 * context).map(|i| i * i % 251).collect();
    let logits = solo.logits(&device, &tokens)?;
    let bytes: Vec<u8> = logits.host_visible().ok_or("a processor")?.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(dir.join("shoal_logits.f32"), bytes)?;
    fs::write(dir.join("shoal_tokens.u32"), tokens.iter().flat_map(|t| t.to_le_bytes()).collect::<Vec<u8>>())?;
    fs::write(dir.join("config.json"), hf::config_json(&job.spec, Dtype::F32).to_string())?;
    let mut file = BufWriter::new(File::create(dir.join("model.safetensors"))?);
    hf::write_model(
        &table,
        &job.spec,
        |block, interval, out| {
            let values = solo.read(Kind::Weight, block).ok_or_else(|| std::io::Error::other("a processor"))?;
            out.copy_from_slice(&values[interval.range()]);
            Ok::<_, std::io::Error>(())
        },
        Destination { out: &mut file, aside: Aside { dir: &dir, leave: 0 } },
    )?;
    Ok(())
}
