"""xoroshiro128aox in Python's integers: published and computed vectors, and the states of a modelled IPU.

The vectors are those of the facts gathered for this project, computed by programs independent of this repository;
55/14/36 unless said otherwise.
"""

from __future__ import annotations

from poplibs_py.poprand.reference import MASK, counter_words, jump, multiply, outputs, power, rotl, splitmix, step

__all__ = ["MASK", "POWER_OF_TWO_JUMPS", "VECTORS", "counter_words", "ipu_state", "jump", "multiply", "outputs",
           "power", "prng_seed_write", "rotl", "splitmix", "step"]

POWER_OF_TWO_JUMPS = {
    32: 0x1A5037803D7C09BB << 64 | 0x6D5C8D1A4B1A701E,
    64: 0xD86B048B86AA9922 << 64 | 0xBEAC0467EBA5FACB,
    96: 0xF2DEAC28BEF3BB07 << 64 | 0x18F7C399CCEBDA8D,
}


def ipu_state(seed: int, modifier: int, tile: int, worker: int, discarded: int = 15) -> tuple[int, int]:
    low = (tile << 4 & 0xFFFFFFFF) ^ 0xAAAAAAA0 | worker
    return outputs((seed, (modifier ^ 0x55555555) << 32 | low), discarded)[1]


def prng_seed_write(v: int) -> tuple[int, int]:
    """State after a write to the $PRNG_SEED register."""
    n = ~v & 0xFFFFFFFF
    word = 0xFFFFFFFF
    return n << 32 | v, (n << 13 & word | v >> 19) << 32 | (v << 13 & word | n >> 19)


# name: (state, outputs, state after them)
VECTORS = {
    "A": (
        (0x0000000000000001, 0x0000000000000000),
        """
        0000000000000001 0080001000004001 0018406018000121 8080563010444126
        19d06c0b1818c401 01d8201235894067 29f05d707207c5c4 df59615fd8d24ee6
        ba252776eb589886 5ba7ef3a255eb1a2 824c04510c1bf62d 580955b4859dfd67
        061bec2f55776de9 2c329553c67a5481 a78aca5bc67ed6ef 8be52f12223f0462
        7abbe38866037083 587510aa5a834f35 0bb56c7cf3dd4dcb 6aa049fdc0c31cb8
        """,
        (0x12f541a184931a2c, 0x6dbdcb8929371c1f),
    ),
    "B": (
        (0x0000000000000000, 0x0000000000000001),
        """
        0000000000000001 0000001000004001 0098006010000121 1000581020404126
        899022240018a601 0154042332058cd1 6970762079ac0154 5d2c775072498b74
        e993d456113de7f3 8c42b5606d219dbe b0daba2946454727 c80d8bcf3a3df434
        d34f5b70c3f1fec3 7d69b8a4e494e4af 33ef0eb76d3a0197 cbfb46df3eb87687
        6c26a2334e4cd5fa 9a276e51647adaf0 879ed901ba175371 a8e43d58c93bafa2
        """,
        (0x9c75acc2f9117eff, 0xebc50225515a15ec),
    ),
    "C": (
        (0x0000000000000001, 0x0000000000000002),
        """
        0000000000000003 008000300000c003 013840e038000363 a080fed030c4c36e
        1ac0684f18388404 0310283837b21945 985cb1f0c150818c 6db949e25db5800c
        77c887e46d50e209 312212d13c62701e 59532b7977e5dea1 64a601ce99886438
        08d3820ecf6930a6 c9e1dde1cfa04191 e4e3ba67d1395b26 773c758b1e873ae7
        620fdc25d665981e 25607556a4441f19 7e25ebdf5b2b8813 6e65e487e2dd3a63
        """,
        (0xd945e894b5fe84a9, 0xb20bb946e660707f),
    ),
    "D": (
        (0xffffffffffffffff, 0xffffffffffffffff),
        """
        ffffffffffffffff ffffffffffffffff ffffffffffffbffc 0073ffeff000001f
        0fffc5e017bfc09e 70f40deefffcdf03 fec1e2153f7f7dcf e7abed2fc464bc02
        39c3e49950f8cf13 b5d550a464afffe6 f08ea45765d639c2 cf6b57fc8d85ea46
        803aa98a4493f05c 20b5f66c16f9a21e a1f1b07792f7c95b 26898a04bc642956
        170a405a5ed00828 f0e02d7b4342ba9d cb2779d550ec4c5f c5c532f49da303f2
        """,
        (0x1955fbfa2c8d6218, 0xc3bc40af62504f25),
    ),
    "E": (
        (0x0123456789abcdef, 0xfedcba9876543210),
        """
        ffffffffffffffff f77c0992a3a0e991 92c55b7bdf804d24 782ce0eff0fa17b8
        824e53b78e98d16e 3aea14047ffa24ae a4eba1843e0464e3 dfc7c56e55bf3ab7
        4aac0b60284c924d 29da097d7dbc9e9e 4a1b9fd55f9c6dc2 1f78a8116c76fdfe
        e55be25220691110 ec8ad913d8ec97b1 8b68e27629918a35 e521055efbdc06eb
        aaea8ccb8c0a4d78 8d31ef72ece8790e abb85afb8503905a 62fbcdf7c117502c
        """,
        (0xa122bc21c8dbd8ac, 0xd1751ac910311f7c),
    ),
    "F splitmix64(0)": (
        (0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4),
        """
        409b06a31cd33782 f04456e5b1835b7e 8c61f9ad050fd4dd 3d4ba4049780717d
        585a243bea50eeba d6b52f57795d1550 25c0b89fe5cfb749 f9fbdbc7ec955f2a
        b9132ce204258726 828314d85b0114b4 457ceb926bad4e13 681e1c9dd3b0a179
        0be83eb394eeb46d c894f735e2466229 629e3d6690701059 4c791e93de95892a
        84d9284efb31ff28 e14acb5e4d55dc55 4921ceef6e60c639 2b5a547b1d6a29d0
        """,
        (0x4f61ff88816ad5c8, 0x16ad1d63364527aa),
    ),
    "G splitmix64(42)": (
        (0xbdd732262feb6e95, 0x28efe333b266f103),
        """
        66a61dd950405f90 807d53713cccfb7f 197e03172b438cd1 7f62b9c8e5492020
        ef866d2ca41c78f4 4a5b4673dcaa53cd 4a75f6782a989832 fe220efbee9f885b
        0dfb65ed8ce690d3 dd125260e439e771 95ada52ad2e5b3ed 455ce6330f817a6c
        5c69ecf9bdc0b1a1 fb75ab5c20acc95f 2c6b949c6d81585b d3b30701c80d1c3c
        9196f0fa4cd15c24 540e73275637e716 5d7557d78f4446cd 6fb7e03f5b38aafe
        """,
        (0xae72ed8d901345e5, 0x8344cfd6fa80c3f9),
    ),
    "H xoroshiro128aox 24-16-37 seed(1,2)": (
        (0x0000000000000001, 0x0000000000000002),
        """
        0000000000000003 0000006001030003 21c103c302000c03 810180670d22ad60
        27c91ac9c1331847 d39ad00a06f48b2e 2ab1036dec382f7e 20db8fb702fe8d1c
        67ed9949037ce208 0c83f7ef3a1ad8cc 6fb39c07f4cc755d 2893622f3ef0044f
        da9984a89d91aa04 bce9117f0dcb0aca 816776eccd350b4a 12f2699334317bbf
        9e42d7763de964e7 6e8b30454bc93480 bc0ce598df32b016 daf581dc8bf86353
        """,
        (0x8e34f8411f07c00b, 0x7fd1947b58b6401d),
    ),
    "I: (1,2) after jump 2^64": (
        (0x814146b67b285f30, 0x7f6ff236623b4e25),
        """
        f9a9387dd5e2add5 5c7f62a7697f0d38 4fdf08c20bfda85f f4d9e5e9c3555628
        """,
        (0x77c203bc6f392fe8, 0x45667ae072205f1f),
    ),
    "J: (1,2) after jump 2^32": (
        (0x6f7f00c49da17e45, 0xbe88ee744f953b7c),
        """
        2dc7ef28ed32b8a1 2a31b15eb8b1b893 d9467431a9bac6ed a8e9ee0b2dee05fd
        """,
        (0xdcf36108e3db12f0, 0xc0e69fdcb09eecb4),
    ),
    "ipu 42 0 0 0 0": (
        (0xab66cccabeeb1317, 0x3e935f2786a596ec),
        """
        69f82be22788e9e3 fd828e505a80ef4d 37a61e3b4f130b53 88e88055fa3fbf67
        """,
        (0x5aab0b06a029a9ba, 0xac03f57ee04ec99f),
    ),
    "ipu 42 0 0 0 1": (
        (0xacc4411eb7567128, 0xeac58a2cb7a68264),
        """
        b599cb09feecf38f afaaddf213148b94 c8cf89e076287525 455acdcfe560d8d6
        """,
        (0x35d76d41eb7412f8, 0x966a326765af22ff),
    ),
    "ipu 42 0 0 1 0": (
        (0x6086680719d8cb31, 0xe3654110cfdb151d),
        """
        43faa917e1f3d84b 3150726bd036c283 05c3e4547712775b 5d844cf65db8e8f2
        """,
        (0xaec705c29e5d608a, 0x1b8e4eba219aac52),
    ),
    "ipu 42 0 7 1471 5": (
        (0x9612125d66b7a3da, 0xe8d8b4971c644fd1),
        """
        7eaac6b4620be3e8 67e1f13fbb05c071 22e2ac426d9fc65a 2b3de0ab54849dee
        """,
        (0xce4e05dcf4b45904, 0x8e4e10fabc1f8ab8),
    ),
    "ipu 0 0 0 0 0": (
        (0x6ca045b4aaccd000, 0xdf127dd749057ecd),
        """
        0bb3a71bd3d04ecc fa757f0605c30e43 5f41b113436b9fc6 981285b3c92fbbe7
        """,
        (0x025229e40ee486e8, 0x12fc307559135cbd),
    ),
    "$PRNG_SEED write 0x0": (
        (0xffffffff00000000, 0xffffe00000001fff),
        """
        ffffdfff00001ffc 07811ff0f879dfef 17d022eee81bdeec 71da2a8b7951f0f3
        """,
        (0xf51801710e1e3f00, 0xe5df0f071da12e87),
    ),
    "$PRNG_SEED write 0x1": (
        (0xfffffffe00000001, 0xffffc00000003fff),
        """
        ffffbffe00003ff9 0f023fe1f0f3bfde 2fa045ddd037bdd8 e3b45516f2a3e1e6
        """,
        (0xea3002e21c3c7e00, 0xcbbe1e0e3b425d0f),
    ),
    "$PRNG_SEED write 0x12345678": (
        (0xedcba98712345678, 0x7530e2468acf1db9),
        """
        46f88bdd94e33330 e53244053136cdc3 b56baa1b5705ef1a 8ba0dfba1b75aece
        """,
        (0x8af33b995338f77b, 0xb722ecf0bbb1fb4d),
    ),
}
