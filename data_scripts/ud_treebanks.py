"""Put eight treebanks of UD in place: ``ud/NAME/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``.

    python data_scripts/ud_treebanks.py                   # downloads 30 MB from the official repositories
    python data_scripts/ud_treebanks.py --from DIR        # takes a local copy instead, no network
    python data_scripts/ud_treebanks.py --to DIR          # default: $PROBTRANS_DATA/ud, else data/ud

Those of Universal Dependencies in docs/trees.md beside the English Web Treebank, which has a script of its own:
Afrikaans, French, Greek, Hungarian, Maltese, Turkish, Uyghur, Wolof. Every file is compared with its known SHA-256
before it takes its place; a different file that is already there is left alone without ``--force``. DIR holds files
with their official names, such as ``wo_wtb-ud-train.conllu``, or folders as they are here. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import PublicFile, fetch_corpus, start

LICENCE = (
    "Universal Dependencies: af_afribooms, mt_mudt, ug_udt and wo_wtb CC BY-SA 4.0; tr_imst CC BY-NC-SA 4.0; el_gdt "
    "and hu_szeged CC BY-NC-SA 3.0; fr_sequoia LGPL-LR. Cite each treebank as its repository says."
)
TREEBANKS = [
    ("af_afribooms", "UniversalDependencies/UD_Afrikaans-AfriBooms/a6dd726120c8bf1a0f8fb40f6a9ca15e880a192a", (
        ("train", "5dfd07a87750b4b535eca5a4b4254352d2d40fbdd3fc1a9d332e62cec0f0c05f", 2_125_618),
        ("dev", "9be338cd501863631e03c123be2399e32b3d845d91347e5d6aa10c76254fbb49", 329_125),
        ("test", "e41f9111795ea733f91a93787e76a3191a088c213375c50f8ec6a9597a94e967", 633_159),
    )),
    ("el_gdt", "UniversalDependencies/UD_Greek-GDT/1485f849d5ac7fcafa092a75804b41dbb1a3f194", (
        ("train", "892cd36cd47372ec0d7ccdbc874af9a6994651cdb0cf2cee6ba93bb01ee83794", 3_883_203),
        ("dev", "53de54735051eecef04aa8c0f5f0fbf2466e0e0d4fd9dfd3d313560c394ddf41", 962_466),
        ("test", "30cb5881ce6f8ba628de88853a4c105e716a365e8fcd9024a85befe41165c260", 979_881),
    )),
    ("fr_sequoia", "UniversalDependencies/UD_French-Sequoia/f5b049600c89d2cf15ebbec860f75d703884d32b", (
        ("train", "56424954edf9d20a4d1184e37bfe931fb7c64da82bf2a587b4f35b828d79d767", 3_246_253),
        ("dev", "a5138dc5e8886484c2f8919e97113f56b9e4329e5cf2a999c021d6ee45e8b45d", 643_734),
        ("test", "a650e7a223fe191009ded17cedae740659449be20354bd68205c376de4ddef2d", 644_731),
    )),
    ("hu_szeged", "UniversalDependencies/UD_Hungarian-Szeged/8f08ba648e6f6345212a721b7cb1ad78c5924f0e", (
        ("train", "1e9d02111d6e842ad60d20cccfb43d8f758b4cc311d13e2044af2e285372847a", 1_456_431),
        ("dev", "8cb5b630e09d5d938ce624b06fe3abe57a631533f5aef186ba533daca6e4ab5b", 843_187),
        ("test", "9031ec98f775ceae6940580a1bb4ef8a2a9e9bee38c40eb9e8ce0f006b56fa59", 756_298),
    )),
    ("mt_mudt", "UniversalDependencies/UD_Maltese-MUDT/8330fc644d66d62d91e873780c2706c5519f8bfd", (
        ("train", "d93df4a04bb95651ece7dba1248c4c82cb88362c0a78a03003cecfabe913010d", 1_045_369),
        ("dev", "a3e806469dc89ccd4fea2a9760a3103ad6da531fcb3c86dd5d6b167be09f3ae8", 465_520),
        ("test", "1ac7f440f795ef85860c0767e760f72631733fd46e4e33fb5d9b166e9abd52d4", 500_869),
    )),
    ("tr_imst", "UniversalDependencies/UD_Turkish-IMST/bcd48daa9957794a9137d85a4e2a115cdcdd4b1a", (
        ("train", "8d8b8b581dab9362e6f2e4328aef77b9fabec1d189a199e320ba136710c7bd83", 3_120_510),
        ("dev", "3bdaab362b7a9af7cbf8944aee5c1c1d077970ad4bcafcf23c5c062d4cf93801", 894_821),
        ("test", "fc9269bd598489b942a025b678779557266ce0c054a843e47c7db386d76d6459", 841_235),
    )),
    ("ug_udt", "UniversalDependencies/UD_Uyghur-UDT/24eb080e4832169315ffb5411beb6cbc8f0372c4", (
        ("train", "8b41b86261138009342b6c4b5f6a51fa45746079712e37a74afeab841600d285", 2_020_717),
        ("dev", "ae2ea20117e509bc9af19b80df58a911aba5d0e61f332c22b9aab2a47934dc90", 1_104_833),
        ("test", "e0884a71a6e01ca24e175fce25f2e47a4ae750d734cae24fe974598b3aafd293", 1_073_488),
    )),
    ("wo_wtb", "UniversalDependencies/UD_Wolof-WTB/575a3ab64619a91de9950f01afb7c9f2d8cd28c4", (
        ("train", "206e6579debb4f6d1c333edf6cce00d74da298390f98046cc04ba5a9210d832d", 1_481_516),
        ("dev", "fb4c74f866805d3ba5c42616e5643c1021e23fa44b35971526355122107b8c06", 641_235),
        ("test", "4e9dd202909447c914cbb38ced7d890482d0ac2794b8789f61440c6818f3bdb7", 653_605),
    )),
]  # fmt: skip
FILES = [
    PublicFile(f"{name}/{split}.conllu", sha256, size, source, f"{name}-ud-{split}.conllu")
    for name, source, files in TREEBANKS
    for split, sha256, size in files
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ud", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
