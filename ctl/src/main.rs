//! `shoalctl`: submit and steer jobs; run local clusters.

use std::process::ExitCode;

fn main() -> ExitCode {
    shoal_ctl::main()
}
