//! `bench`: measurements of this machine.

use std::path::Path;

use shoal_config::presets;
use shoal_daemon::bench::{self, TrainReport};

use super::Context;
use crate::cli::Bench;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::facts;
use crate::output::units::rate;

pub(super) fn run(context: &Context, args: &Bench) -> Result<Verdict, Failure> {
    match args {
        Bench::Train { preset, threads } => {
            // Its tokens are drawn, not read.
            let spec = shoal_config::preset(preset, Path::new("/dev/null")).ok_or_else(|| {
                let known: Vec<&str> = presets::ALL.iter().map(|(name, _)| *name).collect();
                Failure::Usage(format!("there is no preset `{preset}`; known: {}", known.join(", ")))
            })?;
            let report = bench::train(&spec, *threads as usize)
                .map_err(|error| Failure::No(format!("{:#}", anyhow::Error::from(error))))?;
            context.format.print(&report)?;
        }
    }
    Ok(Verdict::True)
}

impl Show for TrainReport {
    fn show(&self) -> String {
        facts([
            ("training", rate(Some(self.tokens_per_second))),
            ("model arithmetic", format!("{:.1} GFLOP/s", self.gflops)),
            ("matrix products alone", format!("{:.1} GFLOP/s", self.ceiling_gflops)),
            ("share of that", format!("{:.1} %", self.share_of_ceiling * 100.0)),
            ("resident at most", format!("{:.0} MiB", self.peak_rss_mb)),
            ("first step", format!("{:.2} s", self.first_step_s)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_promised_keys_and_people_get_units() {
        let report = TrainReport {
            tokens_per_second: 12_345.0,
            gflops: 60.0,
            ceiling_gflops: 120.0,
            share_of_ceiling: 0.5,
            peak_rss_mb: 812.0,
            first_step_s: 0.4,
        };
        let json = serde_json::to_value(&report).expect("plain data");
        let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            ["ceiling_gflops", "first_step_s", "gflops", "peak_rss_mb", "share_of_ceiling", "tokens_per_second"]
        );
        let text = report.show();
        assert!(text.contains("12,345 tokens/s") && text.contains("50.0 %") && text.contains("812 MiB"), "{text}");
    }
}
