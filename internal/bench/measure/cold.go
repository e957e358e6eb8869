package measure

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/spec"
)

// coldFiles is a study's wish that files are read from the disk and not from memory. Its job
// drops them before it reads them, by the program in the variable beeProgram:
//
//	"$BEE_PROGRAM" inside cold FILE...
const (
	coldFiles  = "cold-files"
	beeProgram = "BEE_PROGRAM"
)

// setProgram has a job's environment name bee in the container, or on the bare host.
func setProgram(job *spec.Job) {
	job.Env = maps.Clone(job.Env)
	if job.Env == nil {
		job.Env = map[string]string{}
	}
	job.Env[beeProgram] = inside.Program
}

// outputs are what the job, or each of its n copies, has printed.
func (t *Taker) outputs(output []byte, n int, work string) [][]byte {
	if n <= 1 {
		return [][]byte{output}
	}
	var all [][]byte
	for i := range n {
		text, _ := readOutput(filepath.Join(work, copyDir(i)), copyOutput) // without it, nothing is known
		all = append(all, text)
	}
	return all
}

// warm are flags about files that may have been read from memory.
func warm(outputs [][]byte, guest bool) []string {
	seen, stayed := len(outputs) > 0, false
	for _, text := range outputs {
		found := false
		for line := range bytes.Lines(text) {
			var x map[string]inside.Cold
			if !bytes.HasPrefix(line, []byte(`{"`+inside.ColdKey+`"`)) || json.Unmarshal(line, &x) != nil {
				continue
			}
			found = true
			stayed = stayed || x[inside.ColdKey].InMemory != 0 || x[inside.ColdKey].Pages <= 0
		}
		seen = seen && found
	}
	var flags []string
	switch {
	case !seen:
		flags = append(flags, "nothing verified that files were read from the disk and not from memory")
	case stayed:
		flags = append(flags, "files stayed in memory although they were dropped, so that reads were not of the disk alone")
	}
	if guest {
		flags = append(flags, "files were dropped from the memory of the guest alone, and may have been in that of its host")
	}
	return flags
}
