//! Placeholder entry point; replaced when the command line lands.
fn main() {}
