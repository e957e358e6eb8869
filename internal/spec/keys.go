package spec

import (
	_ "embed"
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml"
)

//go:embed keys.yaml
var keysFile []byte

// A KeyTable explains the keys of one mapping of the Beefile, the sites file or a study file.
type KeyTable struct {
	File string                                // beefile, sites or study
	At   string                                // path of the mapping without indexes; empty at the top
	Keys []struct{ Key, Text, Default string } // in Markdown, with links of pages in docs/reference
}

// KeyTables returns the tables of all keys, in the order in which pages show them.
func KeyTables() ([]KeyTable, error) {
	var tables []KeyTable
	if err := yaml.UnmarshalWithOptions(keysFile, &tables, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read the built-in keys.yaml: %w", err)
	}
	return tables, nil
}

// meanings are the texts of keys, by their path without indexes.
type meanings struct {
	texts  map[string]string
	inline map[string]any // schemas of the keys of a Part
}

// meaningsOf returns the meanings of the keys of beefile, sites or study, without the targets
// of links.
func meaningsOf(file string) (meanings, error) {
	tables, err := KeyTables()
	if err != nil {
		return meanings{}, err
	}
	link := regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
	m := meanings{texts: map[string]string{}}
	for _, t := range tables {
		if t.File != file {
			continue
		}
		for _, k := range t.Keys {
			text := k.Text
			if k.Default != "" {
				text += "; default: " + k.Default
			}
			m.texts[join(t.At, k.Key)] = link.ReplaceAllString(text, "$1")
		}
	}
	return m, nil
}
