//! Writes the first inputs of every target into `corpus/`, and the words of the protocol into `words.dict`.
//!
//! They are made of the golden dialogues, and of those in further folders that are named as arguments.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use bunqueue_mcp_fuzz::fuzz::seeds::Seeds;

fn main() -> io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Seeds::default();
    seeds.add(&home.join("../fixtures/tcp"));
    for folder in std::env::args_os().skip(1) {
        seeds.add(Path::new(&folder));
    }
    let corpus = home.join("corpus");
    write(&corpus.join("frames"), &seeds.frames)?;
    write(&corpus.join("payload"), &seeds.payload)?;
    write(&corpus.join("broker"), &seeds.broker)?;
    fs::write(corpus.join("words.dict"), dictionary(&seeds.words))
}

/// One file for each input, named after what is in it.
fn write(folder: &Path, inputs: &BTreeSet<Vec<u8>>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for input in inputs {
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        fs::write(folder.join(format!("seed-{:016x}", hasher.finish())), input)?;
    }
    Ok(())
}

/// Words as they stand in a frame, with the header of their text.
fn dictionary(words: &BTreeSet<String>) -> String {
    let short = words.iter().filter(|word| word.len() < 32);
    let lines = short.map(|word| {
        let header = 0xa0 | word.len();
        let letters = word.as_bytes().escape_ascii();
        format!("\"\\x{header:02x}{letters}\"\n")
    });
    lines.collect()
}
