package studies

import (
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/study"
)

// TestStudies parses each study, and composes its jobs at all sizes (as Parse does).
func TestStudies(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			text, ok := Text(name)
			if !ok {
				t.Fatal("it has no text")
			}
			s, err := study.Parse(name+".yaml", []byte(text), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != name || !strings.HasSuffix(s.Title, "?") {
				t.Errorf("its name is %q and its question %q", s.Name, s.Title)
			}
			if paper := strings.HasPrefix(name, "beserra-") || strings.HasPrefix(name, "bee-") || strings.HasPrefix(name, "rdma-"); paper && (s.Source == "" || len(s.Claims) == 0) {
				t.Errorf("a paper's study has the source %q and %d claims", s.Source, len(s.Claims))
			}
			if reads := strings.Contains(text, "fio --") || strings.Contains(text, "MPI.File"); reads != slices.Contains(s.Fair, "cold-files") {
				t.Errorf("it reads files: %v; conditions: %q", reads, s.Fair)
			}
			// What is not the paper's own program and hardware judges no claim of it.
			if len(s.Claims) > 0 && s.StandIn == "" {
				t.Error("it does not say what stands in for the paper's program")
			}
			for _, name := range s.EnvironmentNames { // a machine that nobody has prepared
				if e := s.Environments[name]; e.Untested != (e.Site != "") {
					t.Errorf("%s, on site %q: untested is %v", name, e.Site, e.Untested)
				}
			}
			for _, size := range []string{"", "paper", "here", "smoke"} {
				points, err := s.Points(t.Context(), size)
				if err != nil || len(points) == 0 {
					t.Errorf("size %q: %d points, %v", size, len(points), err)
				}
				for i := range points {
					if n, err := s.CopiesAt(&points[i]); err != nil || n < 1 {
						t.Errorf("size %q: %d copies, %v", size, n, err)
					}
				}
			}
			for i := range s.Claims {
				c := &s.Claims[i]
				if !holdsAtSome(t, s, c) {
					t.Errorf("no size has a point for the claim %q", c.Text())
				}
			}
		})
	}
}

func holdsAtSome(t *testing.T, s *study.Study, c *study.Claim) bool {
	t.Helper()
	for _, size := range []string{"", "paper"} {
		points, err := s.Points(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range points {
			if c.Holds(&points[i]) {
				return true
			}
		}
	}
	return false
}
