package core

import (
	"encoding/json"
	"fmt"
)

// Bounds of JSON that another process, or a store, has written.
const (
	// maxDepth bounds how deep objects and lists may be nested.
	maxDepth = 32
	// fewValues may be in any text, and one more for each bytesPerValue of it. The largest
	// texts are manifests, of which each entry has a digest of 64 bytes.
	fewValues     = 1 << 18
	bytesPerValue = 64
)

// CheckJSON refuses JSON that is nested too deep, or that has so many values that they take
// much more memory than the text: "{}" of three bytes may become a struct of hundreds. What
// else is wrong with it, its decoder finds.
func CheckJSON(raw []byte) error {
	depth, values, most, inText := 0, 1, fewValues+len(raw)/bytesPerValue, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("it is nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == ',':
			if values++; values > most {
				return fmt.Errorf("it has more than %d values", most)
			}
		}
	}
	return nil
}

// DecodeJSON decodes JSON that CheckJSON does not refuse.
func DecodeJSON(raw []byte, into any) error {
	if err := CheckJSON(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
