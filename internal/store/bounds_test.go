package store

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

func TestHostileLists(t *testing.T) {
	whole := driver.Manifest{Attempt: 1, Taken: time.Now(), Files: map[string]string{"a/b": "00ff"}}
	for name, harm := range map[string]func(*driver.Manifest){
		"a path that leaves": func(m *driver.Manifest) { m.Files = map[string]string{"../x": "00"} },
		"an absolute path":   func(m *driver.Manifest) { m.Files = map[string]string{"/etc/passwd": "00"} },
		"no digest":          func(m *driver.Manifest) { m.Files = map[string]string{"a": "\x1b[2J"} },
		"another attempt":    func(m *driver.Manifest) { m.Attempt = 7 },
		"a negative size":    func(m *driver.Manifest) { m.Bytes = -1 },
		"the future":         func(m *driver.Manifest) { m.Taken = time.Now().AddDate(10, 0, 0) },
		"escapes in a site":  func(m *driver.Manifest) { m.Site = "a\x1b]0;x" },
	} {
		m := whole
		harm(&m)
		list := []driver.Checkpoint{{Generation: driver.Generation{Attempt: 1}, Manifest: m}}
		if err := CheckList(list); err != nil || !list[0].Broken {
			t.Errorf("%s: %v, %+v", name, err, list)
		}
	}
	for name, list := range map[string][]driver.Checkpoint{
		"twice": {{Generation: driver.Generation{Attempt: 1}}, {Generation: driver.Generation{Attempt: 1}}}, "negative": {{Generation: driver.Generation{Attempt: -1}}}, "many": make([]driver.Checkpoint, MostNames+1),
	} {
		if err := CheckList(list); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"..@x", "a@../x", "a@b/c", "-a@b", "a@", "a@b\n", "a@.b"} {
		if _, _, ok := driver.ParseRunName(name); ok {
			t.Errorf("%q is taken for a run", name)
		}
	}
}
