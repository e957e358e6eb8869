package spec

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestLongWords(t *testing.T) {
	long := strings.Repeat("x", core.LongestArgument+1)
	for text, valid := range map[string]bool{
		"run: echo " + long:                     true,
		"run: [echo, " + long[1:] + "]":         true,
		"run: [echo, " + long + "]":             false,
		"env: {A: " + long[2:] + "}":            false,
		"env: {A: " + long[3:] + "}":            true,
		"setup: [" + long + "]\nrun: echo":      false,
		"post: [" + long + "]\nrun: echo":       false,
		"entrypoint: " + long:                   false,
		"checkpoint: {command: [" + long + "]}": false,
	} {
		if _, err := ParseJob("x", []byte("image: a\n"+text+"\n"), "/"); (err == nil) != valid {
			t.Errorf("%.40s…: %v", text, err)
		}
	}
}
