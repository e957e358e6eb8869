package study

import (
	"reflect"

	"github.com/bee-hpc/bee/internal/spec"
)

// Schema returns the JSON Schema (2020-12) of study files.
func Schema() (map[string]any, error) {
	return spec.DocumentSchema("study", reflect.TypeFor[Study](), words(), "study", "job", "environments", "metrics")
}
