package control

import (
	"github.com/bee-hpc/bee/internal/control/transfer"
)

// Routes is what is known of how machines reach each other. The zero value is ready for use.
type Routes = transfer.Routes

// transfers returns the attempt's site as one end of transfers.
func (a *attempt) transfers() *transfer.Site {
	return &transfer.Site{
		Name: a.site.Name, Lease: a.lease, Routes: a.c.Routes, Breaks: &a.breaks,
		Progress: a.c.toward, Record: a.event, RecordRoute: a.recordRoute,
	}
}
