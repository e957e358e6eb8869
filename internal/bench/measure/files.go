package measure

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Bounds of the outputs that are kept of a measurement.
const (
	mostFiles    = 256 // copies have one each
	mostFileName = 48
)

// keepFiles keeps the outputs in dir that figures and answers are read from, compressed, beside the log. The values of
// secrets are not in them.
func (t *Taker) keepFiles(row *record.Row, o Outcome, dir string) error {
	wanted := t.sourceFiles()
	if len(wanted) == 0 {
		return nil
	}
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	return root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || !wanted[path.Base(name)] || n == mostFiles {
			return err
		}
		raw, err := root.ReadFile(name, maxOutput)
		if err != nil { // the reading of figures reports that
			return nil
		}
		n++
		file := strings.TrimSuffix(row.Log, logEnding) + "." + flatName(name) + ".zst"
		return keep(filepath.Join(t.Dir, file), o.hidden(raw), "")
	})
}

// sourceFiles are the names of the outputs that figures and answers are read from.
func (t *Taker) sourceFiles() map[string]bool {
	names := map[string]bool{}
	for _, m := range t.Study.Metrics {
		names[path.Base(m.SourceFile())] = true
	}
	for _, c := range t.Study.Check {
		names[path.Base(c.File)] = true
	}
	delete(names, path.Base(""))
	return names
}

// flatName is the path of an output as the name of a file.
func flatName(name string) string {
	flat := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/\x00 ", r) {
			return '-'
		}
		return r
	}, name)
	return flat[max(0, len(flat)-mostFileName):]
}
