//! Sample pipelines as their users meet them: the real program, real stages, both stores.

mod mill;

mod dead_letters;
mod display;
mod ends;
mod example;
mod hashes;
mod killed;
mod refusals;
mod resumed;
mod rude;
mod shared;
mod stories;
mod views;
mod waits;
