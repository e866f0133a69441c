//! Sample pipelines as their users meet them: the real program, real stages, both stores.

mod mill;

mod dead_letters;
mod ends;
mod example;
mod hashes;
mod killed;
mod refusals;
mod resumed;
mod shared;
mod stories;
mod views;
