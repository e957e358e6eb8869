package mpi

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path"
	"strings"
)

// family is a group of MPI implementations whose launcher starts only
// programs of the same group. MPICH and Intel MPI speak the same PMI and have
// the same ABI, so that they are one.
type family string

const (
	unknown  family = ""
	openMPI  family = "Open MPI"
	mpichABI family = "MPICH or Intel MPI"
)

// libraryFamily reports the family of the MPI library that a program (a path
// inside) is linked to, directly or through other libraries, and that
// library's path. unknown: none was found, or not for certain.
func (i *image) libraryFamily(program string) (family, string) {
	queue, seen := []string{program}, map[string]bool{}
	dirs := i.libraryDirs()
	for len(queue) > 0 && len(seen) < 400 {
		inside := queue[0]
		queue = queue[1:]
		host := i.host(inside)
		if host == "" || seen[host] {
			continue
		}
		seen[host] = true
		f, err := elf.Open(host)
		if err != nil {
			continue
		}
		base := path.Base(inside)
		if strings.HasPrefix(base, "libmpi.so") || strings.HasPrefix(base, "libmpich.so") || strings.HasPrefix(base, "libmpi_abi.so") || strings.HasPrefix(base, "libmpi_ilp64.so") {
			got := exportsOf(f)
			f.Close()
			return got, inside
		}
		needed, _ := f.ImportedLibraries()
		search := i.searchPath(f, path.Dir(i.real(inside)), dirs)
		f.Close()
		for _, name := range needed {
			if found := i.find(name, search); found != "" {
				queue = append(queue, found)
			}
		}
	}
	return unknown, ""
}

// searchPath is the dynamic linker's: DT_RPATH unless there is a DT_RUNPATH,
// LD_LIBRARY_PATH, DT_RUNPATH, the configured directories (ld.so(8)).
func (i *image) searchPath(f *elf.File, origin string, configured []string) []string {
	expand := func(tag elf.DynTag) []string {
		var dirs []string
		values, _ := f.DynString(tag)
		for _, v := range values {
			v = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(v)
			dirs = append(dirs, strings.Split(v, ":")...)
		}
		return dirs
	}
	run := expand(elf.DT_RUNPATH)
	var dirs []string
	if len(run) == 0 {
		dirs = expand(elf.DT_RPATH)
	}
	dirs = append(dirs, strings.Split(i.env["LD_LIBRARY_PATH"], ":")...)
	return append(append(dirs, run...), configured...)
}

func (i *image) find(name string, dirs []string) string {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if p := path.Join(dir, name); i.host(p) != "" {
			return p
		}
	}
	return ""
}

// exportsOf reports an MPI library's family by what it exports: the file name
// libmpi.so.12 has been used by both.
func exportsOf(f *elf.File) family {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return unknown
	}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			continue
		}
		switch {
		case s.Name == "ompi_mpi_comm_world":
			return openMPI
		case strings.HasPrefix(s.Name, "MPII_"), strings.HasPrefix(s.Name, "MPIDI_"):
			return mpichABI
		}
	}
	return unknown
}

// launcherFamily reports which family's launcher an mpirun (a path inside) is:
// by the libraries it needs, by the names that it holds, or by the programs
// beside it, as some are wrappers that report nothing of themselves.
func (i *image) launcherFamily(inside string) family {
	host := i.host(inside)
	if f, err := elf.Open(host); err == nil {
		needed, _ := f.ImportedLibraries()
		f.Close()
		for _, name := range needed {
			if strings.HasPrefix(name, "libopen-rte.so") || strings.HasPrefix(name, "libprrte.so") || strings.HasPrefix(name, "libprte.so") {
				return openMPI
			}
		}
	}
	f, err := os.Open(host)
	if err != nil {
		return unknown
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return unknown
	}
	hydra := bytes.Contains(text, []byte("HYDRA_")) || bytes.Contains(text, []byte("mpiexec.hydra"))
	open := bytes.Contains(text, []byte("prterun")) || bytes.Contains(text, []byte("libopen-rte"))
	switch {
	case hydra && !open:
		return mpichABI
	case open && !hydra:
		return openMPI
	}
	dir := path.Dir(i.real(inside))
	hydra, open = i.host(dir+"/hydra_pmi_proxy") != "", i.host(dir+"/prterun") != "" || i.host(dir+"/orted") != ""
	switch {
	case hydra && !open:
		return mpichABI
	case open && !hydra:
		return openMPI
	}
	return unknown
}
