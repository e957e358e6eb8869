// Package studies holds the studies that bee has of its own. Each is a study file.
package studies

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of all studies, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Text returns the file of a study.
func Text(name string) (string, bool) {
	text, err := files.ReadFile(name + ".yaml")
	return string(text), err == nil
}
