//! Rows as Python sees them (`tables.py` has the same columns, int64 throughout), in tables that never grow.

/// The reason why a message is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Some byte is not understood exactly: the message is left to the other reader.
    Bad,
    /// The hash table of words is too small.
    Full,
}
pub type Read<T> = Result<T, Stop>;

pub const NO_TIME: i64 = i64::MIN;
pub const EMPTY_WORD: i64 = 0;
pub const TRUE: i64 = 2;
pub const FALSE: i64 = 3;
pub const NAN: i64 = 4;
pub const PLUS: i64 = 5;
pub const MINUS: i64 = 6;
const IS_DOUBLE: i64 = -1;
const IS_INT: i64 = -2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Word {
    pub at: i64,
    pub size: i64,
    pub flags: i64,
    pub kind: i64,
}

/// `text` is the code of a word, or says what `value` holds; see `Value`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Attribute {
    pub key: i64,
    pub text: i64,
    pub value: i64,
}

pub enum Value {
    Word(i64),
    Int(i64),
    Double(f64),
}

impl Value {
    pub fn row(self, key: i64) -> Attribute {
        match self {
            Value::Word(text) => Attribute {
                key,
                text,
                value: 0,
            },
            Value::Int(value) => Attribute {
                key,
                text: IS_INT,
                value,
            },
            Value::Double(value) => Attribute {
                key,
                text: IS_DOUBLE,
                value: value.to_bits().cast_signed(),
            },
        }
    }
}

impl Attribute {
    #[inline(always)]
    pub fn value(&self) -> Value {
        match self.text {
            IS_INT => Value::Int(self.value),
            IS_DOUBLE => Value::Double(f64::from_bits(self.value.cast_unsigned())),
            text => Value::Word(text),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    pub start: i64,
    pub end: i64,
    pub name: i64,
    pub kind: i64,
    pub resource: i64,
    pub first: i64,
    pub last: i64,
    pub message: i64,
    pub state: i64,
    pub failed: i64,
    pub first_event: i64,
    pub last_event: i64,
    pub trace: i64,
    pub span: i64,
    pub parent: i64,
    pub first_link: i64,
    pub last_link: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Resource {
    pub first: i64,
    pub last: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Link {
    pub span: i64,
    pub trace: i64,
    pub id: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub span: i64,
    pub time: i64,
    pub name: i64,
    pub first: i64,
    pub last: i64,
}

/// Rows of the caller's memory, filled from the front.
pub struct Table<'a, T> {
    rows: &'a mut [T],
    len: usize,
}

impl<'a, T: Copy> Table<'a, T> {
    pub fn new(rows: &'a mut [T]) -> Self {
        Table { rows, len: 0 }
    }
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    pub fn rows(&self) -> &[T] {
        self.rows
    }
    #[inline(always)]
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.rows.get_mut(self.len.checked_sub(1)?)
    }
    #[inline(always)]
    pub fn push(&mut self, row: T) -> Read<()> {
        *self.rows.get_mut(self.len).ok_or(Stop::Bad)? = row;
        self.len += 1;
        Ok(())
    }
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}
