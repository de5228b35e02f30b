//! The simulator: the operator's own logic over fakes, with faults, one seed one run.

#[cfg(not(madsim))]
compile_error!(
    "sim needs `--cfg madsim`: build with the repository's .cargo/config.toml and without a RUSTFLAGS variable"
);

pub mod scenario;
