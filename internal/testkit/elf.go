package testkit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// SharedObject is an ELF file that has nothing but what those read of one who look
// for libraries.
type SharedObject struct {
	Soname, Runpath string
	Needed, Exports []string
}

// Write writes it, and the directory that it is in.
func (o SharedObject) Write(t testing.TB, path string) {
	t.Helper()
	strs := []byte{0}
	intern := func(s string) uint64 {
		at := len(strs)
		strs = append(append(strs, s...), 0)
		return uint64(at)
	}
	var dyn, sym bytes.Buffer
	put := func(b *bytes.Buffer, v any) { binary.Write(b, binary.LittleEndian, v) }
	for _, n := range o.Needed {
		put(&dyn, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: intern(n)})
	}
	for tag, value := range map[elf.DynTag]string{elf.DT_SONAME: o.Soname, elf.DT_RUNPATH: o.Runpath} {
		if value != "" {
			put(&dyn, elf.Dyn64{Tag: int64(tag), Val: intern(value)})
		}
	}
	put(&dyn, elf.Dyn64{})
	put(&sym, elf.Sym64{})
	for _, e := range o.Exports {
		put(&sym, elf.Sym64{Name: uint32(intern(e)), Info: byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_OBJECT), Shndx: 1})
	}
	names := []byte("\x00.dynstr\x00.dynsym\x00.dynamic\x00.shstrtab\x00")
	const header = 64
	offset := uint64(header)
	section := func(name string, kind elf.SectionType, data []byte, link uint32, entry uint64) elf.Section64 {
		s := elf.Section64{Name: uint32(bytes.Index(names, []byte("\x00"+name+"\x00")) + 1), Type: uint32(kind), Off: offset, Size: uint64(len(data)), Link: link, Entsize: entry}
		offset += s.Size
		return s
	}
	sections := []elf.Section64{
		{},
		section(".dynstr", elf.SHT_STRTAB, strs, 0, 0),
		section(".dynsym", elf.SHT_DYNSYM, sym.Bytes(), 1, 24),
		section(".dynamic", elf.SHT_DYNAMIC, dyn.Bytes(), 1, 16),
		section(".shstrtab", elf.SHT_STRTAB, names, 0, 0),
	}
	var out bytes.Buffer
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: offset,
		Ehsize: header, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 4,
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	put(&out, h)
	for _, part := range [][]byte{strs, sym.Bytes(), dyn.Bytes(), names} {
		out.Write(part)
	}
	put(&out, sections)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := core.WriteProgram(path, out.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}
