package spec

import (
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestProgressAndMetrics: patterns by which nothing can be read are refused where they are.
func TestProgressAndMetrics(t *testing.T) {
	parse := func(text string) error {
		_, err := ParseJob("job.yaml", []byte("image: x\n"+text+"\n"), "/home/ann")
		return err
	}
	for _, text := range []string{
		`progress: {match: 'step (\d+) of (\d+)'}`, `progress: {match: '(\d+) %'}`, `progress: gromacs`, `progress: {program: lammps, total: 50000}`, `progress: {match: 'step (\d+)', total: 400}`, "workdir: /data/case\nvolume: {path: /data}\nprogress: openfoam", `progress: {program: openfoam, total: 0.5}`, `progress: {file: /work/progress}`, "workdir: /work/run\nprogress: {file: progress}",
		`metrics: {energy: 'Etot = (\S+)', T.max-1: "(?:T|t)=([0-9.]+)"}`,
	} {
		if err := parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		`progress: {}`, `progress: gromax`, `progress: {program: charmm}`, `progress: {program: gromacs, match: '(a)'}`, `progress: openfoam`, `progress: {file: /work/progress, total: 4}`, `progress: {match: '(a)', total: 0}`, `progress: {program: namd, total: -1}`, `progress: {match: '(a) (b)', total: 5}`, `progress: 'step (\d+)'`, `progress: {match: 'step \d+'}`, `progress: {match: '(a)(b)(c)'}`, `progress: {match: '('}`, `progress: {match: '(a)\1'}`,
		`progress: {file: /tmp/progress}`, `progress: {file: /work}`, `progress: {file: ../progress, match: '(a)'}`, "workdir: /work\nprogress: {file: ../work2/progress}", `progress: {file: [a]}`,
		"mounts: [{from: /data, to: /work/data}]\nprogress: {file: /work/data/progress}", "vm: true\nvolume: {kind: dataimage}\nprogress: {file: /work/progress}",
		"array: {cases: {s: [a, b]}, pack: 2}\nrun: x\nprogress: {file: /work/progress}",
		`metrics: {energy: '(a)(b)'}`, `metrics: {-x: '(a)'}`, `metrics: {energy: ['(a)']}`, `metrics: ['(a)']`, `metrics: {bomb: '((((a{9}){9}){9}){9})'}`,
		`metrics: {a: (x), b: (x), c: (x), d: (x), e: (x), f: (x), g: (x), h: (x), i: (x), j: (x), k: (x), l: (x), m: (x), n: (x), o: (x), p: (x), q: (x)}`,
	} {
		err := parse(text)
		if err == nil {
			t.Errorf("%s is no error", text)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "measured")
}
