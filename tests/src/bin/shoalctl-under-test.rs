//! The command line under the tests' own roof, so that Cargo builds it with them.

use std::process::ExitCode;

fn main() -> ExitCode {
    shoal_ctl::main()
}
