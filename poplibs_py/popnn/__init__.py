"""PopNN: non-linearities, softmax, losses, norms, pooling, recurrent layers and CTC, and plans that say what they cost.

Non-linearities are operations of `poplibs_py.popops` too, and products take some as ``activation=``;
`poplibs_py.popsparse` holds the softmax of block-sparse matrices.
"""

from ..lazy import submodules_on_demand
from . import nonlinearities as _nonlinearities
from .attention.api import (
    Attention,
    AttentionGradients,
    scaled_dot_product_attention,
    scaled_dot_product_attention_grad,
)
from .batch import (
    BatchNorm,
    BatchStatistics,
    FoldedWeights,
    batch_norm_inference,
    batch_norm_statistics,
    batch_norm_training,
    batch_normalise,
    distributed_batch_norm_grad,
    fold_batch_norm,
)
from .ctc.api import CTCLoss, ctc_loss, ctc_loss_and_gradient, plan_ctc_loss
from .ctc_infer.api import CTCPaths, ctc_beam_search_decoder, ctc_greedy_decoder, plan_ctc_inference
from .element_losses import binary_cross_entropy, binary_cross_entropy_with_logits, huber_loss, kl_divergence, mse_loss
from .losses import MASKED_LABEL_CODE, Loss, calc_accuracy, calc_loss, cross_entropy
from .nonlinearities import *  # noqa: F403
from .norms import (
    NormGradients,
    batch_norm,
    batch_norm_grad,
    group_norm,
    group_norm_grad,
    instance_norm,
    instance_norm_grad,
    layer_norm,
    layer_norm_grad,
    rms_norm,
    rms_norm_grad,
)
from .pooling.api import max_pool_with_indices, plan_pooling, pool, pool_indices_gradient, pool_input_gradient
from .recurrent.api import LayerWeights, from_torch, layers_bwd, prepare_layers, to_torch
from .recurrent.gru import gru, gru_bwd, gru_bwd_with_wu, gru_fwd, gru_wu
from .recurrent.lstm import lstm, lstm_bwd, lstm_bwd_with_wu, lstm_fwd, lstm_wu
from .recurrent.prepared import PreparedWeights
from .recurrent.rnn import rnn, rnn_bwd, rnn_fwd, rnn_wu
from .recurrent.steps import rnn_steps
from .regions import roi_align, roi_align_input_gradient
from .softmax import log_softmax, log_softmax_grad, scaled_softmax_stable, softmax, softmax_grad
from .softmax import softmax as softmax_stable
from .spatial import SpatialGradients, spatial_softmax_2d, spatial_softmax_2d_grad

__all__ = ["Attention", "AttentionGradients", "BatchNorm", "BatchStatistics", "CTCLoss", "CTCPaths", "FoldedWeights",
           "LayerWeights", "Loss", "MASKED_LABEL_CODE", "NormGradients", "PreparedWeights", "SpatialGradients",
           "batch_norm", "batch_norm_grad", "batch_norm_inference", "batch_norm_statistics", "batch_norm_training",
           "batch_normalise", "binary_cross_entropy", "binary_cross_entropy_with_logits", "calc_accuracy", "calc_loss",
           "cross_entropy", "ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_loss", "ctc_loss_and_gradient",
           "distributed_batch_norm_grad", "fold_batch_norm", "from_torch", "group_norm", "group_norm_grad", "gru",
           "gru_bwd", "gru_bwd_with_wu", "gru_fwd", "gru_wu", "huber_loss", "instance_norm", "instance_norm_grad",
           "kl_divergence", "layer_norm", "layer_norm_grad", "layers_bwd", "log_softmax", "log_softmax_grad", "lstm",
           "lstm_bwd", "lstm_bwd_with_wu", "lstm_fwd", "lstm_wu", "max_pool_with_indices", "mse_loss",
           "plan_ctc_inference", "plan_ctc_loss", "plan_pooling", "pool", "pool_indices_gradient",
           "pool_input_gradient", "prepare_layers", "rms_norm", "rms_norm_grad", "rnn", "rnn_bwd", "rnn_fwd",
           "rnn_steps", "rnn_wu", "roi_align", "roi_align_input_gradient", "scaled_dot_product_attention",
           "scaled_dot_product_attention_grad", "scaled_softmax_stable", "softmax", "softmax_grad", "softmax_stable",
           "spatial_softmax_2d", "spatial_softmax_2d_grad", "to_torch", *_nonlinearities.__all__]

__getattr__, __dir__ = submodules_on_demand(__name__)
