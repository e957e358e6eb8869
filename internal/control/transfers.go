package control

import (
	"github.com/bee-hpc/bee/internal/control/transfer"
)

// Routes is what is known of how machines reach each other. The zero value is ready for use.
type Routes = transfer.Routes
