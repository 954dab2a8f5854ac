//! Which samples a lane trains on: a pure function of (seed, step).
