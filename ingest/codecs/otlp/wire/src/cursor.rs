//! Protobuf's wire format, read from the front of a slice. `None`: not what protobuf's own writers write.

#[derive(Clone, Copy)]
pub enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Sized = 2,
    Fixed32 = 5,
}

/// Tag of a field whose number is below 16: one byte.
pub const fn tag(field: u8, wire: Wire) -> u8 {
    field << 3 | wire as u8
}

/// Bytes of a tag that is skipped, at most: numbers of fields below 2^25.
const MAX_TAG_BYTES: usize = 4;

#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    #[inline(always)]
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    #[inline(always)]
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&chunk, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(chunk)
    }

    #[inline(always)]
    pub fn fixed64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    #[inline(always)]
    pub fn fixed32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    /// A varint of at most `most` bytes, in its shortest form.
    #[inline(always)]
    fn base128(&mut self, most: u32) -> Option<u64> {
        let first = self.byte()?;
        if first < 128 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 127);
        for i in 1..most {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << (7 * i);
            if byte < 128 {
                return (byte != 0 && (i < 9 || byte == 1)).then_some(value);
            }
        }
        None
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Option<u64> {
        self.base128(10)
    }

    /// A varint below 2^31: a kind, a count of dropped attributes.
    #[inline(always)]
    pub fn small(&mut self) -> Option<u64> {
        self.varint().filter(|value| value >> 31 == 0)
    }

    /// The bytes of a length-delimited field.
    #[inline(always)]
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let n = self.base128(4)?;
        let (body, rest) = self.rest.split_at_checked(n as usize)?;
        self.rest = rest;
        Some(body)
    }

    /// Goes behind a field that is not read, after the first byte of its tag.
    #[inline(always)]
    pub fn skip(&mut self, first: u8) -> Option<()> {
        const CONTINUED: u8 = 0x80;
        const FIRST_FIELD: u8 = 1 << 3;
        if first < FIRST_FIELD {
            return None;
        }
        let mut last = first;
        for _ in 1..MAX_TAG_BYTES {
            if last < CONTINUED {
                break;
            }
            last = self.byte()?;
        }
        // A longer form of a field's number than the shortest ends with 0.
        match (1..CONTINUED).contains(&last).then_some(first & 7)? {
            0 => self.varint().map(drop),
            1 => self.fixed64().map(drop),
            2 => self.sized().map(drop),
            5 => self.fixed32().map(drop),
            _ => None,
        }
    }

    /// `None` where bytes are left.
    #[inline(always)]
    pub fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

/// The fields of a message that were seen, of those that may come once.
#[derive(Default)]
pub struct Once(u32);

impl Once {
    /// `None` where the field was seen before.
    #[inline(always)]
    pub fn first(&mut self, bit: u32) -> Option<()> {
        let seen = self.0 >> bit & 1;
        self.0 |= 1 << bit;
        (seen == 0).then_some(())
    }
}
