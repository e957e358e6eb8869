#include "ah.h"
#include "broker.h"
#include "context.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	struct ah *ah;
	int error;

	if (a->port_num != 1 || (a->is_global && a->grh.sgid_index != 0))
		return fail(EINVAL);
	ah = calloc(1, sizeof *ah);
	if (!ah)
		return fail(ENOMEM);
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->attr = *a;
	error = broker_create(context_of(pd->context), BEE_KIND_AH, pd->handle, &ah->ah.handle);
	if (error) {
		free(ah);
		return fail(error);
	}
	return &ah->ah;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *x, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *a)
{
	(void)x;
	memset(a, 0, sizeof *a);
	a->dlid = wc->slid;
	a->sl = wc->sl;
	a->src_path_bits = wc->dlid_path_bits;
	a->port_num = port;
	if (wc->wc_flags & IBV_WC_GRH) {
		a->is_global = 1;
		a->grh.dgid = grh->sgid;
		a->grh.hop_limit = 0xff;
	}
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr a;

	ibv_init_ah_from_wc(pd->context, port, wc, grh, &a);
	return ibv_create_ah(pd, &a);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	int error = broker_destroy(context_of(ah->context), ah->handle);

	if (!error)
		free(ah);
	return error;
}

static int group(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid, uint16_t op)
{
	struct bee_group ask = {.request = {sizeof ask, op, 0}, .handle = qp->handle, .lid = lid};
	struct bee_reply reply;

	if (qp->qp_type != IBV_QPT_UD)
		return EINVAL;
	memcpy(ask.gid, gid, sizeof ask.gid);
	return broker_call(context_of(qp->context), &ask, &reply, sizeof reply, NULL, NULL);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return group(qp, gid, lid, BEE_OP_JOIN);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return group(qp, gid, lid, BEE_OP_LEAVE);
}
