//! Distinct byte strings as codes. The hash has a secret seed, and probes are bounded: nobody can make it slow.

use crate::cursor::{Cursor, Once, Wire, tag};
use crate::tables::{Read, Stop, Word};
use crate::walk::value;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Kind {
    Text = 0,
    Array = 1,
    KeyValues = 2,
    Bytes = 3,
}

/// Flags of a word, as `tables.py` names them.
const NUL: i64 = 1;
const LONG: i64 = 2;
const ODD: i64 = 4;
const OPENS: i64 = 8;
pub const RAW: i64 = 16;
/// Flags of bytes that are not understood: whatever names them is left to the other reader.
const REFUSED: i64 = -1;
/// A nested value that is larger is left: of its text some kilobytes are kept.
const MAX_RAW: usize = 1 << 15;
/// Levels of nested values that are read; protobuf's parser stops at 100.
const MAX_DEPTH: usize = 16;
const MAX_PROBES: usize = 64;
const FREE: u32 = u32::MAX;
const M: u64 = 0x9E37_79B9_7F4A_7C15;

pub struct Words<'a> {
    buf: &'a [u8],
    rows: &'a mut [Word],
    known: Vec<Known<'a>>,
    slots: Vec<u32>,
    seed: u64,
    long: usize,
}

/// A word as it is compared, closer together than its row, which is what Python sees.
struct Known<'a> {
    hash: u64,
    kind: Kind,
    flags: i64,
    bytes: &'a [u8],
}

/// The allocator has no memory.
pub struct NoRoom;

impl<'a> Words<'a> {
    pub fn new(
        buf: &'a [u8],
        rows: &'a mut [Word],
        seed: u64,
        long: usize,
    ) -> Result<Self, NoRoom> {
        let slots = free_slots(1 << 12)?;
        let mut known = Vec::new();
        known.try_reserve(slots.len() / 2).map_err(|_| NoRoom)?;
        Ok(Words {
            buf,
            rows,
            known,
            slots,
            seed,
            long,
        })
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Length of a word, and whether NUL is in it.
    #[inline(always)]
    pub fn size_and_nul(&self, code: i64) -> (usize, bool) {
        self.known
            .get(code as usize)
            .map_or((0, false), |word| (word.bytes.len(), word.flags & NUL != 0))
    }

    /// True where Python's `normalise_name` may change the word.
    pub fn may_be_normalised(&self, code: i64) -> bool {
        self.known
            .get(code as usize)
            .is_none_or(|word| word.flags & ODD != 0)
    }

    pub fn has_room(&self) -> bool {
        self.known.len() < self.rows.len()
    }

    /// Offset of a part of the buffer.
    #[inline(always)]
    pub fn place(&self, part: &'a [u8]) -> i64 {
        (part.as_ptr().addr() - self.buf.as_ptr().addr()) as i64
    }

    #[inline(always)]
    pub fn text(&mut self, bytes: &'a [u8]) -> Read<i64> {
        self.code(bytes, Kind::Text)
    }

    /// The code of a text that probably is `guess`.
    #[inline(always)]
    pub fn guessed(&mut self, bytes: &'a [u8], guess: Option<i64>) -> Read<i64> {
        match guess.and_then(|code| self.known.get(code as usize)) {
            Some(word) if word.kind == Kind::Text && same(word.bytes, bytes) => {
                guess.ok_or(Stop::Bad)
            }
            _ => self.text(bytes),
        }
    }

    pub fn code(&mut self, bytes: &'a [u8], kind: Kind) -> Read<i64> {
        let hash = hash(bytes, self.seed.wrapping_add(kind as u64));
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        let mut probes = 0;
        while let Some(word) = self.known.get(self.slots[slot] as usize) {
            if word.hash == hash && word.kind == kind && same(word.bytes, bytes) {
                return if word.flags == REFUSED {
                    Err(Stop::Bad)
                } else {
                    Ok(i64::from(self.slots[slot]))
                };
            }
            probes += 1;
            if probes > MAX_PROBES {
                return Err(Stop::Bad);
            }
            slot = (slot + 1) & mask;
        }
        self.add(bytes, kind, hash, slot)
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, bytes: &'a [u8], kind: Kind, hash: u64, slot: usize) -> Read<i64> {
        let code = self.known.len();
        if 2 * code >= self.slots.len() {
            return Err(Stop::Full);
        }
        self.known.try_reserve(1).map_err(|_| Stop::Bad)?;
        let flags = match kind {
            Kind::Text => text_flags(bytes, self.long),
            Kind::Bytes => Some(RAW),
            Kind::Array | Kind::KeyValues => {
                (bytes.len() <= MAX_RAW && items(bytes, kind, MAX_DEPTH).is_some()).then_some(RAW)
            }
        };
        let at = self.place(bytes);
        let row = self.rows.get_mut(code).ok_or(Stop::Full)?;
        let known = Known {
            hash,
            kind,
            flags: flags.unwrap_or(REFUSED),
            bytes,
        };
        *row = Word {
            at,
            size: bytes.len() as i64,
            flags: known.flags,
            kind: kind as i64,
        };
        self.known.push(known);
        self.slots[slot] = code as u32;
        flags.map(|_| code as i64).ok_or(Stop::Bad)
    }

    /// Makes four times as many slots.
    pub fn grow(&mut self) -> Result<(), NoRoom> {
        let mut slots = free_slots(4 * self.slots.len())?;
        let mask = slots.len() - 1;
        for (code, word) in self.known.iter().enumerate() {
            let mut slot = word.hash as usize & mask;
            while slots[slot] != FREE {
                slot = (slot + 1) & mask;
            }
            slots[slot] = code as u32;
        }
        self.slots = slots;
        Ok(())
    }
}

fn free_slots(n: usize) -> Result<Vec<u32>, NoRoom> {
    let mut slots = Vec::new();
    slots.try_reserve_exact(n).map_err(|_| NoRoom)?;
    slots.resize(n, FREE);
    Ok(slots)
}

/// A number that holds fewer than 8 bytes.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
        return u64::from(u32::from_le_bytes(*first)) | high;
    }
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(a) | u64::from(b) << 8,
        [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        _ => 0,
    }
}

/// The groups of 8 bytes from the front, and the last 8 bytes, which may overlap.
#[inline(always)]
fn eights(bytes: &[u8]) -> Option<(&[[u8; 8]], &[u8; 8])> {
    let last = bytes.last_chunk::<8>()?;
    Some((bytes[..bytes.len() - 1].as_chunks::<8>().0, last))
}

#[inline(always)]
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut h = seed ^ (bytes.len() as u64).wrapping_mul(M);
    if let Some((chunks, last)) = eights(bytes) {
        for chunk in chunks {
            h = (h ^ u64::from_le_bytes(*chunk)).wrapping_mul(M);
            h ^= h >> 29;
        }
        h = (h ^ u64::from_le_bytes(*last)).wrapping_mul(M);
    } else {
        h = (h ^ short(bytes)).wrapping_mul(M);
    }
    h = (h ^ h >> 32).wrapping_mul(M);
    h ^ h >> 29
}

/// Equality without `memcmp`, whose call costs more than most words.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (eights(a), eights(b)) {
        (Some((a, last_a)), Some((b, last_b))) => {
            a.iter().zip(b).all(|(x, y)| x == y) && last_a == last_b
        }
        (None, None) => short(a) == short(b),
        _ => false,
    }
}

/// Flags of a text; `None`: not UTF-8.
fn text_flags(bytes: &[u8], long: usize) -> Option<i64> {
    let (mut nul, mut odd, mut high) = (false, false, false);
    for &byte in bytes {
        nul |= byte == 0;
        odd |= byte.is_ascii_digit();
        high |= !byte.is_ascii();
    }
    if high {
        std::str::from_utf8(bytes).ok()?;
    }
    let flag = |is, flag| if is { flag } else { 0 };
    Some(
        flag(nul, NUL)
            | flag(odd || high, ODD)
            | flag(bytes.len() > long, LONG)
            | flag(matches!(bytes.first(), Some(b'{' | b'[')), OPENS),
    )
}

/// `None` unless a list or an object holds elements alone that protobuf reads as they are written.
fn items(bytes: &[u8], kind: Kind, depth: usize) -> Option<()> {
    const ITEM: u8 = tag(1, Wire::Sized);
    let depth = depth.checked_sub(1)?;
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        let body = (tag == ITEM).then(|| c.sized())??;
        match kind {
            Kind::KeyValues => pair(body, depth)?,
            _ => any_value(body, depth)?,
        }
    }
    Some(())
}

fn pair(bytes: &[u8], depth: usize) -> Option<()> {
    const KEY: u8 = tag(1, Wire::Sized);
    const VALUE: u8 = tag(2, Wire::Sized);
    let mut once = Once::default();
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        let body = c.sized()?;
        once.first(u32::from(tag >> 3))?;
        match tag {
            KEY => std::str::from_utf8(body).ok().map(drop)?,
            VALUE => any_value(body, depth)?,
            _ => return None,
        }
    }
    Some(())
}

/// One field at most: of a oneof that was written twice the last counts.
fn any_value(bytes: &[u8], depth: usize) -> Option<()> {
    let mut c = Cursor::new(bytes);
    let Some(tag) = c.byte() else { return Some(()) };
    match tag {
        value::TEXT => std::str::from_utf8(c.sized()?).ok().map(drop)?,
        value::BOOL => c.byte().filter(|&byte| byte < 2).map(drop)?,
        value::INT => c.varint().map(drop)?,
        value::DOUBLE => c.fixed64().map(drop)?,
        value::ARRAY => items(c.sized()?, Kind::Array, depth)?,
        value::KEY_VALUES => items(c.sized()?, Kind::KeyValues, depth)?,
        value::BYTES => c.sized().map(drop)?,
        _ => return None,
    }
    c.end()
}
