//! `bench`: measurements of this machine.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use shoal_config::JobSpec;
use shoal_config::presets;
use shoal_daemon::bench::{self, KernelsReport, TrainReport};

use super::Context;
use crate::cli::Bench;
use crate::failure::{Failure, Verdict};
use crate::output::table::{facts, table};
use crate::output::units::rate;
use crate::output::{Format, Show};

pub(super) fn run(context: &Context, args: &Bench) -> Result<Verdict, Failure> {
    match args {
        Bench::Train { preset, threads } => {
            let spec = named(preset)?;
            let progress = ProgressBar::new_spinner();
            let doing = format!("training {preset} on {threads} thread(s) for at least 10 s");
            if !progress.is_hidden() {
                progress.set_message(doing);
                progress.enable_steady_tick(Duration::from_secs(1));
            } else if context.format == Format::Human {
                eprintln!("shoalctl: {doing}");
            }
            let report = bench::train(&spec, *threads as usize).map_err(failed);
            progress.finish_and_clear();
            let report = report?;
            context.format.print(&report)?;
        }
        Bench::Kernels { preset, threads } => {
            let specs = preset.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
            let progress = ProgressBar::new_spinner();
            let report = bench::kernels(&specs, *threads as usize, |preset, kernel| {
                progress.set_message(format!("{preset}: {kernel}"));
                progress.tick();
            });
            progress.finish_and_clear();
            context.format.print(&report.map_err(failed)?)?;
        }
    }
    Ok(Verdict::True)
}

/// A preset; its tokens are drawn, not read.
fn named(preset: &str) -> Result<JobSpec, Failure> {
    shoal_config::preset(preset, Path::new("/dev/null")).ok_or_else(|| {
        let known: Vec<&str> = presets::ALL.iter().map(|(name, _)| *name).collect();
        Failure::Usage(format!("there is no preset `{preset}`; known: {}", known.join(", ")))
    })
}

fn failed(error: impl Into<anyhow::Error>) -> Failure {
    Failure::No(format!("{:#}", error.into()))
}

impl Show for KernelsReport {
    fn show(&self) -> String {
        let head = facts([
            ("class", format!("{}, {} threads", self.class, self.threads)),
            ("matrix products", format!("{:.1} GFLOP/s", self.ceiling_gflops)),
            ("memory", format!("{:.1} GB/s", self.ceiling_gbytes)),
        ]);
        let lines = table(
            ["PRESET", "KERNEL", "SIZE", "TIME", "RATE", "UNIT", "SHARE"],
            &[3, 4, 6],
            self.kernels.iter().map(|line| {
                [
                    line.preset.clone(),
                    line.kernel.clone(),
                    line.size.clone(),
                    format!("{:.0} us", line.micros),
                    format!("{:.1}", line.rate),
                    line.unit.clone(),
                    format!("{:.0} %", line.share * 100.0),
                ]
            }),
        );
        let cached = if self.kernels.iter().any(|line| line.unit.starts_with("GB") && line.share > 1.0) {
            "\na share above 100 % of memory means that caches hold the operands"
        } else {
            ""
        };
        format!("{head}\n\n{lines}{cached}")
    }
}

impl Show for TrainReport {
    fn show(&self) -> String {
        facts([
            ("training", rate(Some(self.tokens_per_second))),
            ("model arithmetic", format!("{:.1} GFLOP/s", self.gflops)),
            ("matrix products alone", format!("{:.1} GFLOP/s", self.ceiling_gflops)),
            ("share of that", format!("{:.1} %", self.share_of_ceiling * 100.0)),
            ("mean over the best product", format!("{:.1} %", self.share_of_best * 100.0)),
            ("a step", format!("{:.3} s ({:.3} to {:.3})", self.step_s.median, self.step_s.min, self.step_s.max)),
            ("resident at most", format!("{:.0} MiB", self.peak_rss_mb)),
            ("ready for the first step after", format!("{:.2} s", self.ready_s)),
            ("first step", format!("{:.2} s", self.first_step_s)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use shoal_daemon::bench::Spread;

    use super::*;

    #[test]
    fn json_has_the_promised_keys_and_people_get_units() {
        let report = TrainReport {
            tokens_per_second: 12_345.0,
            gflops: 60.0,
            ceiling_gflops: 120.0,
            share_of_ceiling: 0.5,
            mean_tokens_per_second: 12_000.0,
            share_of_best: 0.48,
            step_s: Spread { min: 0.1, median: 0.2, max: 0.4 },
            product_gflops: Spread { min: 110.0, median: 120.0, max: 121.0 },
            peak_rss_mb: 812.0,
            ready_s: 0.1,
            first_step_s: 0.4,
        };
        let json = serde_json::to_value(&report).expect("plain data");
        let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            [
                "ceiling_gflops",
                "first_step_s",
                "gflops",
                "mean_tokens_per_second",
                "peak_rss_mb",
                "product_gflops",
                "ready_s",
                "share_of_best",
                "share_of_ceiling",
                "step_s",
                "tokens_per_second"
            ]
        );
        let text = report.show();
        assert!(
            text.contains("12,345 tokens/s")
                && text.contains("50.0 %")
                && text.contains("812 MiB")
                && text.contains("0.200 s (0.100 to 0.400)"),
            "{text}"
        );
    }
}
