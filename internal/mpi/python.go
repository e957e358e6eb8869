package mpi

import (
	"bytes"
	"io"
	"os"
	"path"
	"strings"
)

// pythonFamily looks at what `python3 script.py` gets its MPI from: mpi4py's
// extension module. certain is false where several could be meant.
func (i *image) pythonFamily(inside, host string, words []string) (what string, lib family, from string, certain bool) {
	interpreter, _ := i.mpi4pyScript(inside, host, words)
	if interpreter == "" {
		return "", unknown, "", false
	}
	modules, chooses := i.mpi4py(interpreter)
	if chooses {
		return "", unknown, "", false
	}
	for n, m := range modules {
		got, path := i.libraryFamily(m)
		if n > 0 && got != lib {
			return "", unknown, "", false
		}
		lib, from = got, path
	}
	return words[0] + " with mpi4py", lib, from, len(modules) == 1
}

// mpi4pyScript gives the interpreter of a command that runs a Python program with
// mpi4py, or "", and that program's file on this host, where it is one.
func (i *image) mpi4pyScript(inside, host string, words []string) (interpreter, script string) {
	interpreter = inside
	if !strings.HasPrefix(path.Base(i.real(inside)), "python") {
		script = host
		if interpreter = shebang(host); !strings.HasPrefix(path.Base(interpreter), "python") {
			return "", ""
		}
		if found, ok := i.program(interpreter); ok != "" {
			interpreter = found
		}
	} else {
		module := false
		for n := 1; n < len(words) && script == "" && !module; n++ {
			switch w := words[n]; {
			case w == "-m" && n+1 < len(words) && (words[n+1] == "mpi4py" || strings.HasPrefix(words[n+1], "mpi4py.")):
				module = true
			case w == "-m" || w == "-c":
				return "", ""
			case !strings.HasPrefix(w, "-"):
				if script = i.host(w); script == "" {
					return "", ""
				}
			}
		}
		if module {
			return interpreter, ""
		}
	}
	if script == "" || !mentions(script, "mpi4py") {
		return "", ""
	}
	return interpreter, script
}

// mpi4py lists the extension modules that an interpreter may load. The wheels
// of PyPI bring one for each family (MPI.mpich…, MPI.openmpi…) and one of them
// is chosen at run time: chooses means that such a one is there.
func (i *image) mpi4py(interpreter string) (list []string, chooses bool) {
	prefix := path.Dir(path.Dir(i.real(interpreter)))
	seen := map[string]bool{}
	add := func(pattern string) {
		chooses = chooses || len(i.glob(pattern+"/mpi4py/MPI.mpich*.so")) > 0
		for _, m := range i.glob(pattern + "/mpi4py/MPI.[ca]*.so") {
			if real := i.real(m); !seen[real] {
				seen[real] = true
				list = append(list, m)
			}
		}
	}
	for _, dir := range strings.Split(i.env["PYTHONPATH"], ":") {
		if dir != "" {
			add(dir)
		}
	}
	// A virtual environment's interpreter is a link: look beside the link, too.
	for _, p := range []string{path.Dir(path.Dir(interpreter)), prefix, "/usr/local"} {
		add(path.Join(p, "lib/python3*/site-packages"))
		add(path.Join(p, "lib64/python3*/site-packages"))
		add(path.Join(p, "lib/python3*/dist-packages"))
		add(path.Join(p, "lib/python3/dist-packages"))
	}
	return list, chooses
}

// shebang gives the interpreter in a script's first line, env(1) seen through.
func shebang(host string) string {
	f, err := os.Open(host)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	words := strings.Fields(string(rest))
	if !ok || len(words) == 0 {
		return ""
	}
	if path.Base(words[0]) == "env" && len(words) > 1 {
		return words[1]
	}
	return words[0]
}

func mentions(host, text string) bool {
	f, err := os.Open(host)
	if err != nil {
		return false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return err == nil && bytes.Contains(raw, []byte(text))
}
