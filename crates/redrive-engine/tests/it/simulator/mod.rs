//! Whole worlds in virtual time, each grown from one number.
//!
//! A seed decides everything: the queues and their policies, what is submitted and when, what each
//! handler does at each attempt, which calls of the store fail, lose their answer or take long, which
//! workers crash, stop or freeze, and how the wall clock jumps. Then faults end, and everything that
//! can finish must. Afterwards the checker and a set of checks from outside judge what is in the
//! store against what handlers, workers and clients saw. A seed replays exactly, on any machine.
//!
//! Seeds that failed once are kept in `seeds.txt`. `scripts/simulate` looks for more. The judges are
//! judged as well: mutants of the store break one rule each and must be found out.
//!
//! The store is SQLite, on the simulation's own thread. Virtual time moves on when nothing is left to do, and
//! waiting for a server of another process looks like that: a world on PostgreSQL would not replay.
//!
//! There are worlds of runs, of partitions (with extractors, validators, daemons, operators and
//! consumers), of uploads, of pipelines, of plans, of runs behind gates, and of everything at once. All stand on the same ground: clocks,
//! weather, the way to the store, and processes that come and go.

mod attempt_logs;
mod chance;
mod clock;

mod log;

mod bells;
mod faulty_gates;
mod faulty_items;
mod faulty_partitions;
mod faulty_pipelines;
mod faulty_plans;
mod faulty_pruning;
mod faulty_store;
mod faulty_workers;
mod gate;
mod weather;

mod plan;
mod script;

mod client;
mod ground;
mod lived;
mod queues;
mod world;

mod executions;
mod leases;
mod replay;
mod verdict;

mod mutants;
mod seeds;

mod item_mutants;
mod lost_answers;
mod partitions;
mod pipelines;
mod plans;
mod uploads;

mod gate_judges;
mod gate_sightings;
mod gates;

mod mixed;
