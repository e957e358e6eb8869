package study

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Value is a value of a variable: a number or a text.
type Value string

// UnmarshalText takes any scalar.
func (v *Value) UnmarshalText(text []byte) error {
	*v = Value(text)
	return nil
}

// Pattern is the form of the value in a schema.
func (*Value) Pattern() string { return "" }

// any is the value as jq has it.
func (v Value) any() any {
	var number float64
	if json.Unmarshal([]byte(v), &number) == nil {
		if number == math.Trunc(number) && math.Abs(number) < 1<<53 {
			return int(number)
		}
		return number
	}
	return string(v)
}

// Number is the value as a number.
func (v Value) Number() (float64, bool) {
	x, err := strconv.ParseFloat(string(v), 64)
	return x, err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
}

// Fraction is a share such as 5% or 0.05.
type Fraction float64

// UnmarshalText reads a share.
func (f *Fraction) UnmarshalText(text []byte) error {
	x, err := fraction(string(text))
	*f = Fraction(x)
	return err
}

// Pattern is the form of the share in a schema.
func (*Fraction) Pattern() string { return `^[0-9.]+(e-?[0-9]+)? *%?$` }

func fraction(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || strings.Trim(strings.TrimSpace(number), "0123456789.e-") != "" || !(x >= 0 && x <= 1000) {
		return 0, fmt.Errorf("%q is no share, such as 5%% or 0.05", text)
	}
	return x, nil
}

// Range is from one share to another, such as 6%..11%, or one share.
type Range struct{ Low, High float64 }

// UnmarshalText reads a range.
func (r *Range) UnmarshalText(text []byte) error {
	low, high, is := strings.Cut(string(text), "..")
	if !is {
		high = low
	}
	var err error
	if r.Low, err = fraction(low); err == nil {
		r.High, err = fraction(high)
	}
	if err != nil || r.Low > r.High {
		return fmt.Errorf("%q is no range of shares, such as 9%% or 6%%..11%%", text)
	}
	return nil
}

// Pattern is the form of the range in a schema.
func (*Range) Pattern() string { return `^[0-9.]+ *%?( *\.\. *[0-9.]+ *%?)?$` }

// Blocks are the least and the greatest number of counted blocks.
type Blocks struct{ Least, Most int }

// UnmarshalText reads an exact number, or a range such as 10..32.
func (b *Blocks) UnmarshalText(text []byte) error {
	low, high, is := strings.Cut(string(text), "..")
	if !is {
		high = low
	}
	var err, err2 error
	b.Least, err = strconv.Atoi(strings.TrimSpace(low))
	b.Most, err2 = strconv.Atoi(strings.TrimSpace(high))
	if err != nil || err2 != nil || b.Least < 1 || b.Least > b.Most || b.Most > maxBlocks {
		*b = Blocks{}
		return fmt.Errorf("%q is no number of blocks, such as 20 or 10..32, up to %d", text, maxBlocks)
	}
	return nil
}

// Pattern is the form of the blocks in a schema.
func (*Blocks) Pattern() string { return `^[0-9]+( *\.\. *[0-9]+)?$` }

// String is the form in a study file.
func (b Blocks) String() string {
	if b.Least == b.Most {
		return strconv.Itoa(b.Least)
	}
	return fmt.Sprintf("%d..%d", b.Least, b.Most)
}

// Duration is a time such as 40m.
type Duration time.Duration

// UnmarshalText reads a duration.
func (t *Duration) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no duration, such as 90s, 40m or 2h", text)
	}
	*t = Duration(d)
	return nil
}

// Pattern is the form of the duration in a schema.
func (*Duration) Pattern() string { return `^([0-9.]+(ns|us|µs|ms|s|m|h))+$` }
