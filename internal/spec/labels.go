package spec

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Bounds of a job's labels.
const (
	mostLabels   = 64
	longestLabel = 255 // bytes of a value
)

// labels finds labels that no list could show.
func (jc *jobCheck) labels(labels map[string]string) {
	if n := len(labels); n > mostLabels {
		jc.report.at("labels", "", "labels: a run has at most %d, not %d", mostLabels, n)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		switch {
		case !fits("labels", key):
			jc.report.atKey("labels."+key, "letters, digits, and . _ - / within", "labels: %q is no name of a label", key)
		case len(value) > longestLabel:
			jc.report.at("labels."+key, "", "labels.%s: it has %d bytes; at most %d fit", key, len(value), longestLabel)
		case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
			jc.report.at("labels."+key, "", "labels.%s: a label is one line of printable text", key)
		}
	}
}
