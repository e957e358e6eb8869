package core

import (
	"strings"
	"testing"
)

func TestCheckJSON(t *testing.T) {
	const many = 1 << 20
	entry := `"some/file/of/a/volume": "` + strings.Repeat("0", 64) + `"`
	for text, ok := range map[string]bool{
		``: true, `{}`: true, `[[1, 2], "[[,\",[", {"a": null}]`: true,
		strings.Repeat("[", maxDepth):         true,
		strings.Repeat("[", maxDepth+1):       false,
		strings.Repeat(`{"a":`, maxDepth+1):   false,
		"[" + strings.Repeat("{},", many):     false,
		"[" + strings.Repeat(`"",`, many):     false,
		"{" + strings.Repeat(`"":0,`, many):   false,
		"{" + strings.Repeat(entry+",", many): true,
		`"` + strings.Repeat(",", many) + `"`: true,
	} {
		if err := CheckJSON([]byte(text)); (err == nil) != ok {
			t.Errorf("%.20s… of %d bytes: %v", text, len(text), err)
		}
	}
}
