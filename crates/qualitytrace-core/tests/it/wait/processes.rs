//! Verdicts where a service is several processes: silent, new, gone, frozen, sampled, with a wrong clock.
//!
//! The truth is what has happened, delivered or not. Tests are real definitions, judged by the real judge; all runs of a
//! system share one clock and one register, as on a server.
//!
//! `QUALITYTRACE_SEEDS=500 cargo test --release -p qualitytrace-core --test it processes -- --nocapture` plays 1,000,000
//! runs. `QUALITYTRACE_FIRST_SEED` sets the first seed, `QUALITYTRACE_THREADS` how many seeds run in parallel, and
//! `QUALITYTRACE_WORLD` selects worlds by a part of their name. With `QUALITYTRACE_STORIES=1`, inconclusive runs of known
//! tests are described, too.

mod claim;
mod play;
mod process;
mod request;
mod server;
mod system;
mod tally;
mod telemetry;
mod world;

use std::ops::Range;

use self::tally::Tally;
use self::world::World;
use super::evidence::{asked, number};

/// One in so many verdicts of a world may be wrong where no rule can know the truth.
const UNKNOWABLE: usize = 200;

/// Plays the systems with these seeds in parallel threads.
fn play_all(world: World, number: u64, seeds: &Range<u64>, threads: u64) -> Tally {
    let tells_all = asked("QUALITYTRACE_STORIES").is_some();
    let part = |first: u64| {
        let mut tally = Tally::default();
        tally.undecided = tells_all.then(Vec::new);
        for seed in seeds.clone().filter(|seed| seed % threads == first) {
            play::play(world, number, seed, &mut tally);
        }
        tally
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        let parts = parts.into_iter().map(|part| part.join().expect("no part panics"));
        parts.fold(Tally::default(), Tally::with)
    })
}

#[test]
fn the_delivery_of_one_process_is_no_evidence_about_another() {
    let (first, threads) = (number("QUALITYTRACE_FIRST_SEED"), number("QUALITYTRACE_THREADS"));
    let seeds = first..first + number("QUALITYTRACE_SEEDS");
    let only = asked("QUALITYTRACE_WORLD").unwrap_or_default();
    let (mut all, mut wrong) = (Tally::default(), Vec::new());
    println!("{}", Tally::HEADER);
    for (at, world) in (1..).zip(World::ALL).filter(|(_, world)| world.name.contains(&only)) {
        let mut tally = play_all(world, at, &seeds, threads);
        println!("{}", tally.row(world.name));
        for story in tally.undecided.take().into_iter().flatten() {
            println!("{story}");
        }
        if asked("QUALITYTRACE_STORIES").is_some() {
            tally.wrong.iter().chain(&tally.unknowable).for_each(|story| println!("{story}"));
        }
        if tally.unknowable.len() > tally.runs.div_ceil(UNKNOWABLE) {
            wrong.append(&mut tally.unknowable);
        }
        wrong.extend(tally.wrong.iter().cloned());
        all = all.with(tally);
    }
    println!("{}", all.row("all"));
    assert!(wrong.is_empty(), "{} wrong verdicts\n{}", wrong.len(), wrong.join("\n"));
}
