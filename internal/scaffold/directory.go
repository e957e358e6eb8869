package scaffold

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is a file of a directory, with the beginning of its text.
type File struct {
	Name string
	Head string
}

// Program is what a directory's files are for.
type Program struct {
	// Name is that of the program, such as GROMACS, and File the file that shows it.
	Name, File string

	packages []string
	run      string
	outputs  []string
	comment  string
	build    bool // of the Dockerfile
}

// importsMPI finds Python programs that use mpi4py.
var importsMPI = regexp.MustCompile(`(?m)^\s*(from|import)\s+mpi4py\b`)

// Programs finds what a directory may be for, the surest first. Names that a shell would
// read otherwise are left out.
func Programs(files []File) []Program {
	var found []Program
	docker := slices.IndexFunc(files, func(f File) bool { return f.Name == "Dockerfile" || f.Name == "Containerfile" })
	for _, f := range files {
		if !plainName.MatchString(f.Name) {
			continue
		}
		name := strings.TrimSuffix(f.Name, path.Ext(f.Name))
		switch {
		case path.Ext(f.Name) == ".tpr":
			found = append(found, Program{
				Name: "GROMACS", File: f.Name, packages: []string{"gromacs-openmpi", "openmpi-bin"}, outputs: []string{name + ".*"},
				run:     "mpirun gmx_mpi mdrun -s " + f.Name + " -deffnm " + name + " -cpi " + name + ".cpt",
				comment: "-cpi continues from the last checkpoint, if there is one",
			})
		case strings.HasPrefix(f.Name, "in.") && len(f.Name) > len("in."):
			found = append(found, Program{
				Name: "LAMMPS", File: f.Name, packages: []string{"lammps", "openmpi-bin"}, outputs: []string{"log.lammps"},
				run: "mpirun lmp -in " + f.Name,
			})
		case path.Ext(f.Name) == ".py" && importsMPI.MatchString(f.Head):
			found = append(found, Program{
				Name: "mpi4py", File: f.Name, packages: []string{"python3-mpi4py", "openmpi-bin"}, outputs: nil,
				run: "mpirun python3 " + f.Name,
			})
		}
	}
	if docker < 0 {
		return found
	}
	for i := range found { // the image is the directory's own
		found[i].build = true
	}
	return append(found, Program{Name: "its Dockerfile", File: files[docker].Name, build: true})
}

// Directory writes the Beefile of a directory: for one of its programs, or, if p is nil, as
// an example.
func Directory(name string, files []File, p *Program) Result {
	var b strings.Builder
	line := func(text string) { b.WriteString(text + "\n") }
	line("# A job for BEE. `bee check` checks it, `bee run` runs it.")
	line("# All keys: bee help beefile.")
	if plainName.MatchString(name) {
		line("name: " + quote(name))
	}
	line("")
	var r Result
	if p == nil {
		p = &Program{run: "echo \"hello from node $BEE_NODE_RANK of $BEE_NUM_NODES\" | tee hello.txt", outputs: []string{"hello.txt"}}
		line("# The image of your program. It is used as it is, and needs no sshd.")
		line("image: docker.io/library/debian:12")
	} else if p.build {
		line("# The image is built from the Dockerfile beside this file. For one of a registry,")
		line("# write `image: docker.io/you/app:1.0` in place of this.")
		if slices.ContainsFunc(files, func(f File) bool { return f.Name == "Dockerfile" }) {
			line("build: .")
		} else {
			line("build: {context: ., dockerfile: " + p.dockerfile(files) + "}")
		}
	} else {
		line("# The image is built from Debian packages, once. For one of yours, write")
		line("# `image: docker.io/you/app:1.0` in place of this.")
		line("build:")
		line("  debian: bookworm")
		line("  slim: true")
		line("  packages: [" + strings.Join(p.packages, ", ") + "]")
	}
	line("")
	line("# Hosts of the job. mpirun finds them by itself.")
	line("nodes: 1")
	line("")
	if inputs := p.inputs(files); len(inputs) > 0 {
		line("# Copied to the job before it starts.")
		line("inputs:")
		for _, name := range inputs {
			line("  - {from: ./" + name + ", to: /work/}")
		}
	} else {
		line("# Files to copy to the job before it starts:")
		line("# inputs: [{from: ./input, to: /work/}]")
	}
	line("# Directories that are on the site already are mounted, not copied:")
	line("# mounts: [{from: /project/data, to: /data}]")
	line("")
	line("# All nodes share this directory.")
	line("workdir: /work")
	if p.run != "" {
		if p.comment != "" {
			line("# " + p.comment + ".")
		}
		line("run: |")
		line("  " + p.run)
	} else {
		line("# The image's own command runs. To run another:")
		line("# run: mpirun ./app")
	}
	line("")
	if len(p.outputs) > 0 {
		line("# Collected when the run ends. An output that is missing fails the run.")
		line("outputs:")
		for _, name := range p.outputs {
			line("  - {from: \"" + name + "\", to: ./results}")
		}
	} else {
		line("# Files to collect when the run ends:")
		line("# outputs: [{from: \"*.dat\", to: ./results}]")
	}
	r.Beefile = b.String()
	return r
}

func (p *Program) dockerfile(files []File) string {
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == "Dockerfile" || f.Name == "Containerfile" })
	return files[i].Name
}

// inputs are the files that the program reads: its own, and those that may belong to it.
func (p *Program) inputs(files []File) []string {
	if p.run == "" || p.File == "" {
		return nil
	}
	inputs := []string{p.File}
	for _, f := range files {
		beside := p.Name == "LAMMPS" && (strings.HasPrefix(f.Name, "data.") || strings.HasSuffix(f.Name, ".data")) ||
			p.Name == "GROMACS" && f.Name == strings.TrimSuffix(p.File, ".tpr")+".cpt"
		if beside && plainName.MatchString(f.Name) {
			inputs = append(inputs, f.Name)
		}
	}
	return inputs
}

// quote is a plain name as YAML text: names such as 1e3 and null would be other things.
func quote(name string) string { return `"` + name + `"` }
