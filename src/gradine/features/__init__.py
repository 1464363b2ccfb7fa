"""Attention whose query-key matrices are random and frozen, and whose values are fitted [FGBM23].

[FGBM23] Fu, Guo, Bai, Mei, What can a single attention layer learn? NeurIPS 2023.
"""
