package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// kernels is how many kernels keep files for a job in memory: emulated hosts share one.
func (t *Taker) kernels(job *spec.Job) int {
	if job.VM != nil || t.Far != nil && t.Far(job) {
		return max(1, job.Nodes)
	}
	return 1
}

// timesMemory is how many times the memory of a host files have to be, if they are not dropped from it.
const timesMemory = 2

// warm are flags about files that may have been read from memory. Each of some kernels has its own.
func warm(outputs [][]byte, guest bool, kernels int) []string {
	seen, stayed := len(outputs) > 0, false
	boots := map[string]bool{}
	for _, text := range outputs {
		found := false
		for line := range bytes.Lines(text) {
			var x map[string]inside.Cold
			if !bytes.HasPrefix(line, []byte(`{"`+inside.ColdKey+`"`)) || json.Unmarshal(line, &x) != nil {
				continue
			}
			c := x[inside.ColdKey]
			found = true
			large := c.Memory > 0 && c.Bytes/timesMemory >= c.Memory
			stayed = stayed || !large && (c.InMemory != 0 || c.Pages <= 0)
			if c.Boot != "" {
				boots[c.Boot] = true
			}
		}
		seen = seen && found
	}
	var flags []string
	switch n := len(boots); {
	case !seen:
		flags = append(flags, "nothing verified that files were read from the disk and not from memory")
	case stayed:
		flags = append(flags, "files of less than twice the memory stayed there although they were dropped, so that reads were not of the disk alone")
	case n > 0 && n < kernels:
		flags = append(flags, fmt.Sprintf("files were dropped from the memory of %d of %d hosts: the others may have read what they wrote themselves", n, kernels))
	}
	if guest {
		flags = append(flags, "files were dropped from the memory of the guest alone, and may have been in that of its host")
	}
	return flags
}
