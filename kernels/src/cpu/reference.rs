//! Plain f64 forms of the operations, to test against.
