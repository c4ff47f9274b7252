//! Ids and times of all spans of a message, checked without rows or memory.

use crate::cursor::{Cursor, Wire, tag};
use crate::tables::NO_TIME;
use crate::walk::{id_of, instant};

/// A larger span may have too many fields: the decoder counts them.
const MAX_SPAN_BYTES: usize = 1 << 17;

/// True where every span has ids and times that the decoder accepts. False where one has not, or the message is not as
/// protobuf's writers write it; fields that are not looked at are not checked.
pub fn has_sound_spans(bytes: &[u8]) -> bool {
    const RESOURCE_SPANS: u8 = tag(1, Wire::Sized);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        if tag != RESOURCE_SPANS || c.sized().and_then(resource_spans).is_none() {
            return false;
        }
    }
    true
}

fn resource_spans(bytes: &[u8]) -> Option<()> {
    const SCOPE_SPANS: u8 = tag(2, Wire::Sized);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        match tag {
            SCOPE_SPANS => scope_spans(c.sized()?)?,
            _ => c.skip(tag)?,
        }
    }
    Some(())
}

fn scope_spans(bytes: &[u8]) -> Option<()> {
    const SPAN: u8 = tag(2, Wire::Sized);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        match tag {
            SPAN => span(c.sized()?)?,
            _ => c.skip(tag)?,
        }
    }
    Some(())
}

fn span(bytes: &[u8]) -> Option<()> {
    const TRACE: u8 = tag(1, Wire::Sized);
    const ID: u8 = tag(2, Wire::Sized);
    const PARENT: u8 = tag(4, Wire::Sized);
    const START: u8 = tag(7, Wire::Fixed64);
    const END: u8 = tag(8, Wire::Fixed64);
    if bytes.len() > MAX_SPAN_BYTES {
        return None;
    }
    let (mut has_trace, mut has_id) = (false, false);
    let (mut start, mut end) = (NO_TIME, NO_TIME);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        match tag {
            TRACE => {
                id_of::<16>(c.sized()?)?;
                has_trace = true;
            }
            ID => {
                id_of::<8>(c.sized()?)?;
                has_id = true;
            }
            PARENT => {
                c.sized().filter(|id| matches!(id.len(), 0 | 8))?;
            }
            START => start = instant(&mut c)?,
            END => end = instant(&mut c)?,
            _ => c.skip(tag)?,
        }
    }
    let is_backwards = start != NO_TIME && end != NO_TIME && end < start;
    (has_trace && has_id && !is_backwards).then_some(())
}
