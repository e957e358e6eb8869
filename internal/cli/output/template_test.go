package output

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestTemplates(t *testing.T) {
	value := map[string]any{
		"id": "aaaa1111", "nodes": 2, "exit_code": nil, "name": "md \x1b[2J", "ok": true,
		"attempts": []map[string]any{{"site": "lab", "hosts": []string{"n1", "n2"}}, {"site": "rack"}},
	}
	for template, want := range map[string]string{
		`{{.id}}\t{{.nodes}}`:                                      "aaaa1111\t2",
		`{{.name}}`:                                                `md \x1b[2J`,
		`{{range .attempts}}{{.site}} {{end}}`:                     "lab rack ",
		`{{len .attempts}} {{.attempts | len}}`:                    "2 2",
		`{{if .exit_code}}over{{else}}not over{{end}}`:             "not over",
		`{{with .absent}}{{.}}{{else}}-{{end}}`:                    "-",
		`{{json .id}} {{if .ok}}yes{{end}}`:                        `"aaaa1111" yes`,
		`{{range .absent}}x{{else}}none{{end}}`:                    "none",
		`{{range .attempts}}{{range .hosts}}{{.}},{{end}};{{end}}`: "n1,n2,;;",
		`{{.absent.below}}`:                                        "",
	} {
		parsed, err := ParseTemplate(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		var out strings.Builder
		if err := parsed.Print(&out, value); err != nil || out.String() != want+"\n" {
			t.Errorf("%s: %q, %v; want %q", template, out.String(), err, want)
		}
	}
}

func TestTemplatesThatCannotBe(t *testing.T) {
	for _, template := range []string{"", "{{.id", "{{printf .id}}", "{{.id.more}}", "{{range .id}}{{end}}", "{{$x := .id}}{{$x}}", "{{len 5}}", "{{json}}", "{{template \"x\"}}"} {
		parsed, err := ParseTemplate(template)
		if err == nil {
			err = parsed.Print(&strings.Builder{}, map[string]any{"id": "x"})
		}
		if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%q: %v", template, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{range .a}}{{.b}}{{end}}")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseTemplate(text)
		if err != nil {
			return
		}
		parsed.Print(&strings.Builder{}, map[string]any{"a": []any{map[string]any{"b": 1}}, "c": "x"}) //nolint:errcheck // it must not panic
	})
}
