package nodecmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestPlacesOfCopies(t *testing.T) {
	for word, want := range map[string]place{
		"file":             {path: "file"},
		"./a:b":            {path: "./a:b"},
		"/a:b":             {path: "/a:b"},
		"-":                {path: "-"},
		"md:log":           {run: "md", path: "log"},
		"md:/work/":        {run: "md", path: "/work/"},
		"md:1:/work":       {run: "md", rank: 1, path: "/work"},
		"md:12":            {run: "md", path: "12"},
		"md:x:y":           {run: "md", path: "x:y"},
		"md:99999999:file": {run: "md", path: "99999999:file"},
	} {
		if got, err := placeOf(word); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", word, got, err, want)
		}
	}
	if _, err := placeOf("md:"); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("no path: %v", err)
	}
}
