//! OTLP protobuf into tables of codes, for ctypes. All `unsafe` of this crate is in this file: arrays become slices.
//!
//! Every function takes arrays in the order of `tables.py`, and gives a number; below 0 where there was no memory, or
//! where it panicked (a bug: memory stays safe, and Python raises).

mod cursor;
mod rows;
mod scan;
mod tables;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rows::{Keys, ParameterRows, ResourceRows, Tables};
use tables::{Attribute, Event, Link, Resource, Span, Table, Word};
use walk::Walk;
use words::{NoRoom, Words};

const PANICKED: i64 = -1;
const NO_ROOM: i64 = -2;

/// An array of the caller: its address and its number of rows.
#[repr(C)]
pub struct Array {
    at: *mut u8,
    rows: i64,
}

/// The arrays of one call.
struct Arrays<'a>(&'a [Array]);

impl<'a> Arrays<'a> {
    /// # Safety
    /// `at` points to `n` arrays that stay until the call ends; none that is written to overlaps another one.
    unsafe fn new(at: *const Array, n: i64) -> Self {
        match usize::try_from(n) {
            // SAFETY: the caller's promise.
            Ok(n) if !at.is_null() => Arrays(unsafe { std::slice::from_raw_parts(at, n) }),
            _ => Arrays(&[]),
        }
    }

    /// Address and number of rows; `None` for an array that has none, or that is not aligned.
    fn array<T>(&self, number: usize) -> Option<(*mut T, usize)> {
        let array = &self.0[number];
        let (at, rows) = (array.at.cast::<T>(), usize::try_from(array.rows).ok()?);
        (rows > 0 && !at.is_null() && at.is_aligned()).then_some((at, rows))
    }

    /// # Safety
    /// The array has rows of type T, which are made of integers or floats.
    unsafe fn input<T>(&self, number: usize) -> &'a [T] {
        match self.array(number) {
            // SAFETY: the caller's promises, here and in `new`.
            Some((at, rows)) => unsafe { std::slice::from_raw_parts(at, rows) },
            None => &[],
        }
    }

    /// # Safety
    /// As `input`; every array is asked for once.
    unsafe fn output<T>(&self, number: usize) -> &'a mut [T] {
        match self.array(number) {
            // SAFETY: the caller's promises, here and in `new`.
            Some((at, rows)) => unsafe { std::slice::from_raw_parts_mut(at, rows) },
            None => &mut [],
        }
    }
}

fn guarded(work: impl FnOnce() -> Result<i64, NoRoom>) -> i64 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => number,
        Ok(Err(NoRoom)) => NO_ROOM,
        Err(_) => PANICKED,
    }
}

/// A function for ctypes. `tables.py` checks types and numbers of rows of all that it passes.
macro_rules! exported {
    ($name:ident, $arrays:ident, $work:expr) => {
        /// # Safety
        /// As `Arrays`, of the types of the same name in `tables.py`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: *const Array, n: i64) -> i64 {
            guarded(|| {
                // SAFETY: this function's.
                let $arrays = unsafe { Arrays::new(at, n) };
                $work
            })
        }
    };
}

exported!(walk, arrays, {
    // SAFETY: types as in `tables.py`.
    let (buf, bounds, known, roles, settings) = unsafe {
        (
            arrays.input::<u8>(0),
            arrays.input::<i64>(1),
            arrays.input::<i64>(2),
            arrays.input::<i64>(3),
            arrays.input::<u64>(4),
        )
    };
    // SAFETY: types as in `tables.py`.
    let walk = unsafe {
        Walk {
            words: Words::new(
                buf,
                arrays.output::<Word>(5),
                settings[0],
                settings[1] as usize,
            )?,
            attributes: Table::new(arrays.output::<Attribute>(6)),
            spans: Table::new(arrays.output::<Span>(7)),
            resources: Table::new(arrays.output::<Resource>(8)),
            links: Table::new(arrays.output::<Link>(9)),
            events: Table::new(arrays.output::<Event>(10)),
            roles,
            max_name: settings[2] as usize,
        }
    };
    // SAFETY: types as in `tables.py`.
    let (was_read, ends, counts) = unsafe {
        (
            arrays.output::<u8>(11),
            arrays.output::<i64>(12),
            arrays.output::<i64>(13),
        )
    };
    counts.copy_from_slice(&read_all(walk, buf, bounds, known, was_read, ends)?);
    Ok(0)
});

/// Reads messages, each between two bounds; the numbers of rows of all tables.
fn read_all<'a>(
    mut walk: Walk<'a>,
    buf: &'a [u8],
    bounds: &[i64],
    known: &[i64],
    was_read: &mut [u8],
    ends: &mut [i64],
) -> Result<[i64; 6], NoRoom> {
    let part =
        |first: i64, last: i64| buf.get(usize::try_from(first).ok()?..usize::try_from(last).ok()?);
    for &[first, last] in known.as_chunks::<2>().0 {
        let _ = part(first, last).map(|word| walk.words.text(word));
    }
    let places = bounds.windows(2).zip(was_read).zip(ends);
    for ((at, was_read), end) in places {
        *was_read = match part(at[0], at[1]) {
            Some(message) => u8::from(walk.read(message)?),
            None => 0,
        };
        *end = walk.spans.len() as i64;
    }
    Ok([
        walk.words.len(),
        walk.attributes.len(),
        walk.spans.len(),
        walk.resources.len(),
        walk.links.len(),
        walk.events.len(),
    ]
    .map(|n| n as i64))
}

exported!(is_sound, arrays, {
    // SAFETY: types as in `tables.py`.
    let message = unsafe { arrays.input::<u8>(0) };
    Ok(i64::from(scan::is_sound(message)))
});

exported!(distinct, arrays, {
    // SAFETY: types as in `tables.py`.
    let (codes, dense, used, out) = unsafe {
        (
            arrays.input::<i64>(0),
            arrays.output::<i32>(1),
            arrays.output::<i32>(2),
            arrays.output::<i32>(3),
        )
    };
    Ok(rows::distinct(codes, dense, used, out) as i64)
});

exported!(text_bytes, arrays, {
    // SAFETY: types as in `tables.py`.
    let (words, offsets) = unsafe { (arrays.input::<Word>(0), arrays.output::<i32>(1)) };
    Ok(rows::text_bytes(words, offsets))
});

exported!(texts, arrays, {
    // SAFETY: types as in `tables.py`.
    let (buf, words, offsets, data) = unsafe {
        (
            arrays.input::<u8>(0),
            arrays.input::<Word>(1),
            arrays.input::<i32>(2),
            arrays.output::<u8>(3),
        )
    };
    rows::texts(buf, words, offsets, data);
    Ok(0)
});

exported!(keys_used, arrays, {
    // SAFETY: types as in `tables.py`.
    let (attributes, is_of_event, out) = unsafe {
        (
            arrays.input::<Attribute>(0),
            arrays.input::<u8>(1),
            arrays.output::<u8>(2),
        )
    };
    rows::keys_used(attributes, is_of_event, out);
    Ok(0)
});

exported!(resources, arrays, {
    // SAFETY: types as in `tables.py`.
    let (resources, attributes, keys, host_rank) = unsafe {
        let keys = Keys {
            rank: arrays.input(2),
            role: arrays.input(3),
        };
        (
            arrays.input::<Resource>(0),
            arrays.input::<Attribute>(1),
            keys,
            arrays.input::<i64>(4),
        )
    };
    // SAFETY: types as in `tables.py`.
    let mut out = unsafe {
        ResourceRows {
            service: arrays.output(5),
            host: arrays.output(6),
            begin: arrays.output(7),
            row: arrays.output(8),
        }
    };
    rows::resources(resources, attributes, &keys, host_rank, &mut out)?;
    Ok(0)
});

exported!(parameters, arrays, {
    // SAFETY: types as in `tables.py`.
    let (tables, keys, settings) = unsafe {
        let settings = arrays.input::<i64>(10);
        let tables = Tables {
            spans: arrays.input(0),
            attributes: arrays.input(1),
            events: arrays.input(2),
            resource_begin: arrays.input(3),
            resource_row: arrays.input(4),
            event_rank: arrays.input(5),
            row_rank: arrays.input(6),
            changed: arrays.input(7),
            message_rank: settings[0] as i32,
            name_rank: settings[1] as i32,
        };
        let keys = Keys {
            rank: arrays.input(8),
            role: arrays.input(9),
        };
        (tables, keys, settings)
    };
    // SAFETY: types as in `tables.py`.
    let (mut out, counts) = unsafe {
        let out = ParameterRows {
            offsets: arrays.output(11),
            key: arrays.output(12),
            text: arrays.output(13),
            num: arrays.output(14),
            peer: arrays.output(15),
            label: arrays.output(16),
            error: arrays.output(17),
        };
        (out, arrays.output::<i64>(18))
    };
    let sum = rows::parameters(&tables, &keys, settings[2] as usize, &mut out)?;
    counts.copy_from_slice(&[sum.duplicates, sum.dropped]);
    Ok(sum.parameters as i64)
});

exported!(ids, arrays, {
    // SAFETY: types as in `tables.py`.
    let (buf, spans, trace, span, parent, has_parent) = unsafe {
        (
            arrays.input::<u8>(0),
            arrays.input::<Span>(1),
            arrays.output::<u8>(2),
            arrays.output::<u8>(3),
            arrays.output::<u8>(4),
            arrays.output::<u8>(5),
        )
    };
    Ok(rows::ids(buf, spans, trace, span, parent, has_parent) as i64)
});

exported!(link_texts, arrays, {
    // SAFETY: types as in `tables.py`.
    let (buf, links, out) = unsafe {
        (
            arrays.input::<u8>(0),
            arrays.input::<Link>(1),
            arrays.output::<u8>(2),
        )
    };
    rows::link_texts(buf, links, out);
    Ok(0)
});
