package measure

import (
	"math"
	"strconv"
	"strings"
)

// maxNumber bounds the text of a number, in bytes.
const maxNumber = 64

// Number reads a finite number, also in the form of Fortran, such as 1.5D-3.
func Number(text string) (n float64, is bool) {
	if len(text) > maxNumber {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		n, err = strconv.ParseFloat(strings.NewReplacer("D", "E", "d", "e").Replace(text), 64)
	}
	return n, err == nil && IsFinite(n)
}

// IsFinite reports whether a number is neither infinite nor NaN.
func IsFinite(n float64) bool { return !math.IsNaN(n) && !math.IsInf(n, 0) }
