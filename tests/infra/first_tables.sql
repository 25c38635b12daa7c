-- What `videau serve` and `videau import` of commit a601816 left behind, which knew no revisions.
BEGIN TRANSACTION;
CREATE TABLE commands (
	player_id VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	match_id VARCHAR NOT NULL, 
	first_seq INTEGER NOT NULL, 
	last_seq INTEGER NOT NULL, 
	PRIMARY KEY (player_id, "key")
);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','6513270e-269e-0d37-f2a7-4de452e6b438','b4e64cf6eab6780f4d038457e7cf5058b96a6f78fd277d378757f7118d97a937','6tc3juehd7c97w9c3znat5',1,2);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','d23f0824-128b-2f33-0c5c-7fd0a6a3a450','70be7546c46022f43fe88422c64e0a5a5a88123e4f8c709541d2281618157eeb','6tc3juehd7c97w9c3znat5',3,4);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','9531985d-5d9d-c9f8-1818-e811892f902b','40a4a01418523c785acd89dcb0823f387dee53abbc84eff823a5ba740b5ab352','n58bdq8fmkgm5xf9zumrxw',1,2);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','36f675cc-81e7-4ef5-e8e2-5d940ed90475','5382d981b7d94b0f4718d9b7f75dc16baa3eefa91b94e4439a0d756a07408338','n58bdq8fmkgm5xf9zumrxw',3,4);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','6b0d549b-6f03-675a-1600-a35a099950d8','05452273970c5fe2a933cd1e57f4f72b06f7e5cc7367a399e0e6715b67604c05','k5uf7ey47edt4ajbb7kjyx',1,2);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','8d116ece-1738-f7d9-3d9c-172411e20b8f','9451a8e3a94212ff3d3e485605431e9890f72627663a39dea97e9cbaccfa4b8a','k5uf7ey47edt4ajbb7kjyx',3,4);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','3d68b6cb-67f2-4183-b32d-f2bf544a33e1','52be7ff1f17dba6650a7bfcd765f2194cdcc2870d97e6768595f6e8516c8f705','6tc3juehd7c97w9c3znat5',5,5);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','94244510-30e1-45ae-953a-67aead4c9701','7d1825c21d8465d50efa18b9dca07572c3427e1ac9bfe679c5090ffc9fe9f9a4','6tc3juehd7c97w9c3znat5',6,6);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','1caf2049-c007-4826-82a0-4712c4f44464','e6561352975e0bcc79c5b91749c6ceb98da81812e449d538e1022eca6b7c301b','n58bdq8fmkgm5xf9zumrxw',5,5);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','cf85a912-1a1d-4119-9135-d3b12c7d32d9','d26fe313540a80eaea70d6e820fdbc842b144e83adace8c92e3b2bdf6b0cdd2d','n58bdq8fmkgm5xf9zumrxw',6,6);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','0f39cb82-3f8a-4830-a75c-f2cdf5a5ac3d','d4bedeae127da7fb26d5a0765bdc42b0e7cbda7f56c384bb8d41f2f28a34b6aa','k5uf7ey47edt4ajbb7kjyx',5,5);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','c9cb9dbf-19c8-475f-b864-072f42747f74','87a03df8f7035201c6fcf7f7515f9d1274e326e778cc43b4fb905df348c5e201','k5uf7ey47edt4ajbb7kjyx',6,6);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','4a182c5f-6fc3-4be4-b6d5-12f64425fb56','8cbb15736341b55c1008c68e902ee8cb80cf4ba7279ad0db11dc264ca8d98388','6tc3juehd7c97w9c3znat5',7,8);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','c5d5b339-7944-4c29-afb6-5eff351101b5','9b794933eeba85b526c534845dae95ad62e2fd93f10ccc96a65b88bd3ce9ed41','6tc3juehd7c97w9c3znat5',9,9);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','66f4d667-a8e4-48c6-804e-f48675dfe7fd','36d7de7a86b2e9bedf7377df4aee714293218067df672b3ddfc3e35ccc7177e7','n58bdq8fmkgm5xf9zumrxw',7,7);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','76c88274-e553-4ce8-b993-c5f5be0c5f64','fddf3abb7ff2f59657c4c41ab354b83323c81987c4e9fb996e49cca8027b37bd','n58bdq8fmkgm5xf9zumrxw',8,8);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','d297d30c-2130-4a41-87ab-a93a9ad7624e','408f12da86d11f581af2614ab8be88786c8291c33475cb9e3d502cc61ff64971','k5uf7ey47edt4ajbb7kjyx',7,8);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','a4317a8d-cdda-4029-beda-35026257f589','0bfd9bef2464c8ad475305e6181a1074ddca67519711d8a52bc57688cc34e9ee','k5uf7ey47edt4ajbb7kjyx',9,9);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','2163774f-698b-4e4d-8be9-f95a5345bc3d','f4e7a950d6deaa2c12c4f46d767e7c3cb924cc5154863e5395e11e436af126c0','6tc3juehd7c97w9c3znat5',10,10);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','8cf44fe9-5d37-4609-865b-b602594bf6f3','2e0ddfff25d986785f6fea79eedab526f32675f534f213310782d8ee39d5bf81','6tc3juehd7c97w9c3znat5',11,12);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','922be8d6-4931-4e55-b49d-5f24547914e8','89ee0ce741beda48667f6a919ba786760f091730e3531968837142bb595f1a5e','n58bdq8fmkgm5xf9zumrxw',9,9);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','a49a12e0-7803-4968-8436-ba6a7e02aaff','40da5972c4a96e18f3e3d8c114a9f8a77aeb989a34b929a9861135e8e7af13f9','n58bdq8fmkgm5xf9zumrxw',10,10);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','401363da-f79f-4f97-9d8e-a82018ecb800','2abc84b295e4b2e268f60b7dada6abe06e7317d9ebbcc008b90b819f2f63bf39','k5uf7ey47edt4ajbb7kjyx',10,10);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','55cdecc5-6072-40b4-bc65-4e5c29fe2d9a','58c723e3cb1580c71817c224d82995f48eb3b9992b4020d8902434347073fe99','k5uf7ey47edt4ajbb7kjyx',11,12);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','ef3113cb-3e14-4fb1-a678-e0ab1a660b3a','ead6eab9cfe8210ca0a63b449f1d8182687f2f27d7631baa366b75f0b8b3dbc3','6tc3juehd7c97w9c3znat5',13,13);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','ef8bcb4e-c6ca-40a1-acfa-c550b09f65e4','c4c2bda7ca139edf4cbfb70bded8cebbe7435d9947fb45b8c565a94dfc201ee7','6tc3juehd7c97w9c3znat5',14,14);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','274fab36-c18d-4f53-bef5-bc30f2cfd5ad','02bff0b6cea255d51e8fd759c16c508a6c194f91c2c11f799ba08c6019e39566','n58bdq8fmkgm5xf9zumrxw',11,11);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','1295877a-7fa5-4351-b93a-c16293dbbaf1','f574eccd4d29dac7bfb0b834b94fdca71d76c5a11fb693df548c66f1f438a67a','n58bdq8fmkgm5xf9zumrxw',12,12);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','31a576bb-9eff-4174-bdcb-2fac56fe7195','41c723ae43c2a77c536854f53ce1e5c3d682b7176f47facf9647d725e3c7c071','k5uf7ey47edt4ajbb7kjyx',13,13);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','4529924d-61c5-488c-8b23-3cd17a7ce699','81ec916da3d0357331d70719b68606b6f808194f0010073264f5098b0b4c47b6','k5uf7ey47edt4ajbb7kjyx',14,14);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','0a097c97-6bf4-6c69-7d2c-af82eeeacbe2','992c0ad47937d0f3421d310041bbaa16cb0aaa6b8dd8ed2e34a6447e5c05a320','6tc3juehd7c97w9c3znat5',15,15);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','c3baea9e-13de-ef86-ab10-31d0f646e1f4','8498a7bd10adfdf37983a4b1fce22d8f784d3f9c5e8821cc4598e13df740fe2d','n58bdq8fmkgm5xf9zumrxw',13,13);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','e01f5057-ca02-135e-92b1-d3f28ede0d7a','aa6d1649de3877de56df5a4f9875415a30fe89c439330f37193f80cc1ffeb187','6tc3juehd7c97w9c3znat5',16,15);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','b1fee08f-5712-4242-5051-c1ccd17f9aca','ec7f6f47668de6e569e6fafd86722b2dd73ff8a7d197dc137e43ebeb70b7cceb','jaed5wxzdp55e7rf8tgdrw',1,2);
INSERT INTO "commands" VALUES('ttcb926xhmv53jvwcz3mc7','9474031b-7f26-144b-9828-9fcd59a54a7b','5579280fb2473dc4742ca85836f779e675ee81a6dc7e0a8b61a3e42e0ff19b1e','jaed5wxzdp55e7rf8tgdrw',3,4);
INSERT INTO "commands" VALUES('82x2k4pyx3c86jn9kurfzv','d70820fe-119a-72d1-74c9-df6acc011cdd','49853fffb13a2e80e660fed4c662c51dd6cb930701bda1fcd7b1cdd3369ccd34','jaed5wxzdp55e7rf8tgdrw',5,5);
CREATE TABLE events (
	match_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	at VARCHAR NOT NULL, 
	event VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	PRIMARY KEY (match_id, seq)
);
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',1,'2026-11-30T11:56:45.874236Z','{"color":"white","commitment":"645ba754ca5bbe826b8a274c3e86068780012be57b656ce88ba3ba4c8824d80b","imported":null,"kind":"created","match":"6tc3juehd7c97w9c3znat5","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":1,"sandbox":null,"visibility":"public"}}','1435efb87027361d27d04cc3af02a56fc98d29bb68756463e86f272e199d6bd9');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',2,'2026-11-30T11:56:45.874236Z','{"color":"white","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','c2c965188a9941052747351976364c63bafc3fb467d13ec8ba231e37709b5732');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',3,'2026-11-30T11:56:45.887535Z','{"color":"black","entropy":"","kind":"joined","player":"ttcb926xhmv53jvwcz3mc7"}','4a5fe9b4213fbfb1e0d431fdc5fba5b44b7a72f6830ce5c8f0ee132a1c9a4bd9');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',4,'2026-11-30T11:56:45.887535Z','{"by":"black","dice":[4,6],"entropy":"","kind":"rolled","link":"1bc615b6688374c4ff9ca38c56e59a70f838188b2e6d0367523a9ffcbf3fc4b3","opening":true}','89a8bc23a06f6846ca9ace2e31b364c5efd347ad9d78bf5abe4233020140fba9');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',1,'2026-11-30T11:56:45.899801Z','{"color":"white","commitment":"4ce9e182ec1f938cfa2db63918ae54a4acfbd6fe681a97d272c43bb0bf6ee9c9","imported":null,"kind":"created","match":"n58bdq8fmkgm5xf9zumrxw","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":false,"cubeLimit":64,"jacoby":false,"length":null,"sandbox":null,"visibility":"public"}}','cf1e8718c3525afcb437475ac7009389061655c5857fcf96ba9ee1653f36562d');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',2,'2026-11-30T11:56:45.899801Z','{"color":"white","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','6a5d543537b003771227dd84d2de350dd0bad75c8f69dcf5b71fb39b524d4883');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',3,'2026-11-30T11:56:45.908656Z','{"color":"black","entropy":"","kind":"joined","player":"ttcb926xhmv53jvwcz3mc7"}','181cb4e3dd47d19efaf6de7c566e3bf11b275e8d13ceae40df0b004f423f694b');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',4,'2026-11-30T11:56:45.908656Z','{"by":"white","dice":[3,2],"entropy":"","kind":"rolled","link":"05e987631e3ae169df96d758fc97d85b74be399b7cbcc946e0c27122f46f45fa","opening":true}','908a2393728c7cd27441cc73f0f263a05e7d6160e98f4417b1b41f2447b048e3');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',1,'2026-11-30T11:56:45.920266Z','{"color":"white","commitment":"31585a56a3c50a679c457f8cc049529afd90895943b3e2ebdd4e63393fa338ff","imported":null,"kind":"created","match":"k5uf7ey47edt4ajbb7kjyx","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":3,"sandbox":null,"visibility":"private"}}','fe82788f2b2a27ace776d5dd6a5074fd76fc60f9de96919aec816013adcef720');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',2,'2026-11-30T11:56:45.920266Z','{"color":"white","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','861ce456e29bd4027716838f2165d4e6be587943e89c93cfdbe818b2187f536a');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',3,'2026-11-30T11:56:45.928258Z','{"color":"black","entropy":"","kind":"joined","player":"ttcb926xhmv53jvwcz3mc7"}','877fab93a0c522da67982a6c6a60f33f1a1c98a902324c492ad93fea244b8457');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',4,'2026-11-30T11:56:45.928258Z','{"by":"white","dice":[5,2],"entropy":"","kind":"rolled","link":"157506a5bb248838948241145272daa52b887850102793bdc7bec43b3997699c","opening":true}','96b29abad717860ca90e1782f4566b44a55dd00810a3e169d690c76b5df94486');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',5,'2026-11-30T11:56:45.948627Z','{"by":"black","kind":"moved","play":[[13,9],[9,3]]}','dc1804b1fb9824a8da920aeb0337beed43347bf35d25c8ab47460923efbcebd3');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',6,'2026-11-30T11:56:45.960111Z','{"by":"white","dice":[5,2],"entropy":"","kind":"rolled","link":"fc7b446854c08d31126b6bee0038ece6cebde5f883706aba3884ce5b4d5c345e","opening":false}','4c997f9e33c64e36d207a5ed432fa376b69cb7549da08447291ef0993e8ebb47');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',5,'2026-11-30T11:56:45.972933Z','{"by":"white","kind":"moved","play":[[24,22],[13,10]]}','b212fae5f23c40cc36328c772155aa52396395e3155c7c9ab2ebbae166437e8b');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',6,'2026-11-30T11:56:45.983352Z','{"by":"black","dice":[6,2],"entropy":"","kind":"rolled","link":"b8f2354385244b3cd342e1fb3bd9730b5c6d03250a4eace4888e2eea9ac9c7dd","opening":false}','582deb1b40a99b2788fa1bc3dac98fdbb564183eaa640af1338573e24f4297cc');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',5,'2026-11-30T11:56:45.996206Z','{"by":"white","kind":"moved","play":[[24,22],[13,8]]}','ba16d76778100eedc5555e24a94d71c0cf9d4a951da95a74e3457459645b701c');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',6,'2026-11-30T11:56:46.006838Z','{"by":"black","kind":"doubled"}','3a894c8c306e92804548e9b7ba88edb92fec9a5f5423c16d7ce736c87850f592');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',7,'2026-11-30T11:56:46.018847Z','{"by":"white","kind":"moved","play":[[13,8],[6,4]]}','5bb53607d21d3fe6456e33cff7d99acd54a8df451b2dff0e8b0918493546348f');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',8,'2026-11-30T11:56:46.018847Z','{"by":"black","dice":[4,4],"entropy":"","kind":"rolled","link":"8cfc34e51b1674d202bf1b8c2d43b2b4cdd5696065164d789a269f2308c18482","opening":false}','d6fb0ff7a6623ebb00bb03c9207458d373048d88e743a878cde5371990136b39');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',9,'2026-11-30T11:56:46.037216Z','{"by":"black","kind":"moved","play":[[24,20],[24,20],[13,9],[6,2]]}','a8837044c837dc2ac9b94f335e1ab7699b3bd508aa6cccb4219f7bda853de140');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',7,'2026-11-30T11:56:46.052460Z','{"by":"black","kind":"moved","play":[[24,18],[8,6]]}','9f2619dc4d3317e858b1b482ff0623308a5f38a165dd9c99a506f5d3583792d2');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',8,'2026-11-30T11:56:46.063170Z','{"by":"white","dice":[5,3],"entropy":"","kind":"rolled","link":"e627edecad762fe53b155fe2eadfee32903d31b32a78906d07dd0264dd198360","opening":false}','1d6e18fd25f3ea018959ac52355d754ded691d8ca888e1f4782fa033ff707512');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',7,'2026-11-30T11:56:46.074691Z','{"by":"white","kind":"accepted"}','3bbe490a66d97f3d5c6170096baa4ffc54234f671e0a0aa5527cbfdf62499d4f');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',8,'2026-11-30T11:56:46.074691Z','{"by":"black","dice":[3,4],"entropy":"","kind":"rolled","link":"96aad7328208d7515e755f843f95c2573c483aa300b3ae36069cb5bc81384eb0","opening":false}','72220159749d0870dd235ad6e583cc87cccba8838387eabefd158c49b488fac6');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',9,'2026-11-30T11:56:46.096864Z','{"by":"black","kind":"moved","play":[[8,5],[8,4]]}','af5ef232c544e72fbdae0b564876574ddbd55c75a6a1510cd817bcdd9bcf616a');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',10,'2026-11-30T11:56:46.108502Z','{"by":"white","dice":[1,4],"entropy":"","kind":"rolled","link":"7c2266c55c47816e8b6e52eb0abc123ca08ad6951b9ef76621ccf7c5a2a25b6d","opening":false}','12e93914de08a55cd8cf0cf78634947adcc99b54ffd791fd551fa41c121b1c28');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',11,'2026-11-30T11:56:46.118407Z','{"by":"white","kind":"moved","play":[[24,20],[4,3]]}','98157ecf44ec18bd60d418a21701ee424d7de9595b75dba030e061105e82fb74');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',12,'2026-11-30T11:56:46.118407Z','{"by":"black","dice":[2,4],"entropy":"","kind":"rolled","link":"dc673272d3782b7f9d96bb2785bb9287112b635a81bcccd775fc338bbb3762de","opening":false}','fa556bd72529800d795b274eefaf0b1891911aa3792273fc80b0ba3d2616acb2');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',9,'2026-11-30T11:56:46.130615Z','{"by":"white","kind":"moved","play":[[10,5],[6,3]]}','829681f8b173d9c040a3843d441ab07a1c63ae7c6b6b39e12985738b8d14b6ea');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',10,'2026-11-30T11:56:46.140463Z','{"by":"black","dice":[3,5],"entropy":"","kind":"rolled","link":"e95852f1f97eb7cc560f218d4f72153913eb36fa12664f24b61bf86e9f40c8e2","opening":false}','61811838f2ca6f04b5f946f02904c1dd99ef7c7f08210b66a81b20eb06f62baa');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',10,'2026-11-30T11:56:46.151840Z','{"by":"white","dice":[1,6],"entropy":"","kind":"rolled","link":"9756a87f8edefc0ad618fdc4252a778541a3792bb32cda6e9063440eb84014e9","opening":false}','e6acea1053548cbd1effdd03a45b9b620c9a301eb0ca7b8d6a3b6a35592ffdc0');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',11,'2026-11-30T11:56:46.160481Z','{"by":"white","kind":"moved","play":[[22,21],[21,15]]}','3f776937c69fd674a3593cadde4e0e0035c977b41e69faba8375bc08fcae421f');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',12,'2026-11-30T11:56:46.160481Z','{"by":"black","dice":[4,6],"entropy":"","kind":"rolled","link":"86287ffda7789f841acedf6a2bba5fb4219559936e036e8beef59359585527ad","opening":false}','5046e83999996b97a264d84c273804e5c84d84266a1944fb462a3497d1192ffb');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',13,'2026-11-30T11:56:46.176803Z','{"by":"black","kind":"moved","play":[[9,7],[6,2]]}','a27cda6e77e4f6fa22e64080da52d37a7dd8baf14197ca11683a9f326b0dedbc');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',14,'2026-11-30T11:56:46.187035Z','{"by":"white","dice":[2,6],"entropy":"","kind":"rolled","link":"dabffc9bf6c664674c2537ed98799dca19462a06e219e54ed2bb029f095a81b9","opening":false}','01cd1e6dd3d6ba6effd8cfea31a557bea9cf39896f7a921bcc9ceb8d7258d311');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',11,'2026-11-30T11:56:46.202835Z','{"by":"black","kind":"moved","play":[[13,8],[8,5]]}','d38a4f8c43598ce43560dd1f45d8b5695390737dfc0a4cd2d7e012846a11ef7d');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',12,'2026-11-30T11:56:46.212778Z','{"by":"white","dice":[3,3],"entropy":"","kind":"rolled","link":"621e0568a1130d1de8a1596745b596c06a6a5892c6a3f9c29fd84cb5ae69909f","opening":false}','488c2375d7282660da3661b223dd034069d03a7322b988ee16d14f31e1dfc574');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',13,'2026-11-30T11:56:46.232144Z','{"by":"black","kind":"moved","play":[[25,21],[24,18]]}','a5f36a75d7072af6baef9a9560980592824c39699ebd59a658333121d8164c02');
INSERT INTO "events" VALUES('k5uf7ey47edt4ajbb7kjyx',14,'2026-11-30T11:56:46.243563Z','{"by":"white","dice":[4,2],"entropy":"","kind":"rolled","link":"27bb990944bf3896049d6198671fe8c0cf4f0d7de0de2fea2e493eed775fa620","opening":false}','1257de385811426da0bb1286ff54e287ea0538c2b777c09048215e01fa8ca58f');
INSERT INTO "events" VALUES('vc2cufzx3qf9a9p27552ge',1,'2026-11-30T11:56:46.254610Z','{"color":"white","commitment":"f881a78d945c41fe3458c88fade8d31706a66a8573a9b49bf2e50fd9f10de6b5","imported":null,"kind":"created","match":"vc2cufzx3qf9a9p27552ge","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":5,"sandbox":null,"visibility":"public"}}','ca562738729a0fab92cb9f0bdfc917f7560d3e38ab676148741f26eecd445011');
INSERT INTO "events" VALUES('vc2cufzx3qf9a9p27552ge',2,'2026-11-30T11:56:46.254610Z','{"color":"white","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','0396c6347b6aca46934ea06ed5e7f5ef885bc6113bdbc7751f6ea7907d86a2a7');
INSERT INTO "events" VALUES('6tc3juehd7c97w9c3znat5',15,'2026-11-30T11:56:46.267507Z','{"by":"white","kind":"resigned","stake":"match"}','d13695b13311f2a5f844656a5542088efc37c80eb8760e36b8b61bfba50db306');
INSERT INTO "events" VALUES('n58bdq8fmkgm5xf9zumrxw',13,'2026-11-30T11:56:46.277989Z','{"by":"black","kind":"resigned","stake":"match"}','8e849ddda196eb9607792d25c47c1d438e5ceed1337d194f2faefda255b904f7');
INSERT INTO "events" VALUES('m9prym7e6nn7ewvvumutq2',1,'2026-11-30T11:56:46.311439Z','{"color":"black","commitment":"97d707c8ee2df6dee74baaa259520fd86ff95d31a11b5a0887ffeb2c4a9b2fc5","imported":null,"kind":"created","match":"m9prym7e6nn7ewvvumutq2","rematchOf":"n58bdq8fmkgm5xf9zumrxw","rules":1,"settings":{"automaticDoubles":0,"crawford":false,"cubeLimit":64,"jacoby":false,"length":null,"sandbox":null,"visibility":"public"}}','e7b9d4e92d64b06625422424c72744cb985fb44babe8647f57a79bd6ccba7046');
INSERT INTO "events" VALUES('m9prym7e6nn7ewvvumutq2',2,'2026-11-30T11:56:46.311439Z','{"color":"black","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','bd134e82d3841394a14715bfa240fb9798b8c3dd87fdbbc9b78ecc216d7ce721');
INSERT INTO "events" VALUES('m9prym7e6nn7ewvvumutq2',3,'2026-11-30T11:56:46.311439Z','{"color":"white","entropy":"","kind":"joined","player":"ttcb926xhmv53jvwcz3mc7"}','e69a7a7bc0fcbe30a1fcb71dd10728b34bd9982af8f57beff30001c5ed7a712f');
INSERT INTO "events" VALUES('m9prym7e6nn7ewvvumutq2',4,'2026-11-30T11:56:46.311439Z','{"by":null,"dice":[6,6],"entropy":"","kind":"rolled","link":"c35c5a6470e2630f95438ac352d4782358f456b60eabf0276fcbf103d7b5f5a7","opening":true}','8997c27e2919aa626e23d9379fcc0d53aef16e25a238c5b0dc51ff75df41f2d7');
INSERT INTO "events" VALUES('m9prym7e6nn7ewvvumutq2',5,'2026-11-30T11:56:46.311439Z','{"by":"white","dice":[5,1],"entropy":"","kind":"rolled","link":"325f268c17ce23a49f52b42ac7110cfc8d80177e04b245feb5a527f1e4b3b991","opening":true}','1aacdfd7ad1fe717471eb2cf77c6e9820daf8fb1afe901e143f7a635edaf00f1');
INSERT INTO "events" VALUES('jaed5wxzdp55e7rf8tgdrw',1,'2026-11-30T11:56:46.322252Z','{"color":"white","commitment":"2c7cb5a5fffdd3426256304b1a747edac41c3fb8410f5446de3f0e9717e60639","imported":null,"kind":"created","match":"jaed5wxzdp55e7rf8tgdrw","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":3,"sandbox":{"dice":[[3,1],[6,4]],"start":null},"visibility":"public"}}','b7fb3c9611d3bd91f78368c1929a3f6857126f2567ce43fce0d714ba326b17f1');
INSERT INTO "events" VALUES('jaed5wxzdp55e7rf8tgdrw',2,'2026-11-30T11:56:46.322252Z','{"color":"white","entropy":"","kind":"joined","player":"82x2k4pyx3c86jn9kurfzv"}','64056a8d2435f5a25fd59e00214edca57c593afc2b759e7819b1c59656971b9c');
INSERT INTO "events" VALUES('jaed5wxzdp55e7rf8tgdrw',3,'2026-11-30T11:56:46.329461Z','{"color":"black","entropy":"","kind":"joined","player":"ttcb926xhmv53jvwcz3mc7"}','5903faba5fa4570107978e99a5f1817b2c728f88ed71d211efb15ba78da7039e');
INSERT INTO "events" VALUES('jaed5wxzdp55e7rf8tgdrw',4,'2026-11-30T11:56:46.329461Z','{"by":"white","dice":[3,1],"entropy":"","kind":"rolled","link":null,"opening":true}','d9e27efa482d8a497a95f3c19f9b3ff6bf0250a5601e14bcbb45b5d5e208fcc3');
INSERT INTO "events" VALUES('jaed5wxzdp55e7rf8tgdrw',5,'2026-11-30T11:56:46.338439Z','{"by":"white","kind":"moved","play":[[8,5],[6,5]]}','eb0031162f98a9d46b86554aa4098c4130ee494a9573962f235f9a37ef3c5b54');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',1,'2026-11-30T11:56:48.060961Z','{"color":"white","commitment":null,"imported":"mat","kind":"created","match":"8x2v8892zgu9frqbmtrm6r","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":1024,"jacoby":true,"length":null,"sandbox":null,"visibility":"public"}}','c4d59313e484c536f32a983ea5992fb4e550193432b3fdc40bf5743602fd8f25');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',2,'2026-11-30T11:56:48.060961Z','{"color":"white","entropy":"","kind":"joined","player":"he76y28pubfm4nptktv7zf"}','cdb4781ae4fa563b9f7b0b4ee8df07aacbf21acda781650359402fd011ede4bb');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',3,'2026-11-30T11:56:48.060961Z','{"color":"black","entropy":"","kind":"joined","player":"ff98nstnnd77mtd746vfaq"}','56c7f2c4547c0fde0b421ab623412c8ec0710aeea2bb8e99884d4a153bd96ea7');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',4,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[3,2],"entropy":"","kind":"rolled","link":null,"opening":true}','d4bbdbc2364dfbfdacee6897173f9278dd61e5312431f9a7247395882ddd3332');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',5,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[24,21],[13,11]]}','2a584f7a2a3e4653a3dfab95e2242c74ed03631b5f0d694d321278a55f9c5243');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',6,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[6,3],"entropy":"","kind":"rolled","link":null,"opening":false}','f382b6c379ba3e7276b3f127380935f75bf568c3a309fb49170796357df8c10e');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',7,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[13,7],[7,4]]}','76951babeeb014336ec0e47e8b4273025562213f43341c5f6a6ba59f38011a6a');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',8,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[6,3],"entropy":"","kind":"rolled","link":null,"opening":false}','830c6db4e77effef6e8de99cad962493b8f65454e1f2adb0e2ecbc6a91d19612');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',9,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[25,22],[22,16]]}','bf72961c465b1c8346e373553d17488a69a2151d543e526276a11dd670811ec7');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',10,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[2,1],"entropy":"","kind":"rolled","link":null,"opening":false}','808bcaaa19f8711afb483b9d01ffe35b655470481404c397e7f58152fff8264e');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',11,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[24,23],[6,4]]}','e0b31bb7231d67c49e658090f60c78c253175b11947d37a25008f1b15faf14f0');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',12,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[4,3],"entropy":"","kind":"rolled","link":null,"opening":false}','f38deaaccef15582e9130109c2eead123ecfca45be2419147d2a2a34cf406544');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',13,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[16,13],[13,9]]}','cffaab631d25aebe4d0a008dab1173af3f92fce292616cfbe3c497144fbdccad');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',14,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[6,5],"entropy":"","kind":"rolled","link":null,"opening":false}','cb27b14560c3abd120be216cda6a94f4a39c1e18a15307852ee36dab55e9244f');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',15,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[24,18],[23,18]]}','8f500f39f1408e12a6c33fbd7f4d335ab606b0cc75664a3ae4c7bce440d164a4');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',16,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[5,1],"entropy":"","kind":"rolled","link":null,"opening":false}','cd6e04b69a08b85ed697a456893026581a7875f3be32b919a7cbfd59a26a7185');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',17,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[11,6],[9,8]]}','9fd246099a4fcfcba8d3328b0fa5b4f9f948ef64d0810f428856cd6d86b569b7');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',18,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[6,6],"entropy":"","kind":"rolled","link":null,"opening":false}','9a53ee607da87d0afac3d6cec24a187eb6b0c36cbd6169be89559e8379eb35e7');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',19,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[13,7],[13,7],[13,7],[13,7]]}','eca4459b392029fb4bea580f746cf5ce7055665433e9d1c3ba5313cc78c307c6');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',20,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[4,2],"entropy":"","kind":"rolled","link":null,"opening":false}','da732a28272ba3145909067cce3b7ae1a1029ca33ccf201a0331a3436fac3493');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',21,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[8,4],[6,4]]}','274862e838d2b4328dfc4f5deddac91f386584e8a8f0fdde6940fd1bb5256c5e');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',22,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[6,2],"entropy":"","kind":"rolled","link":null,"opening":false}','26889380a543515ef29942e48a214e7bda96a854ba747d8762dfa201bfc74efd');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',23,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[7,1],[6,4]]}','94ac138c698916372c4e298494a7cfd8f20539a1b0e33f3d2ebcb5f32752c47f');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',24,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[3,2],"entropy":"","kind":"rolled","link":null,"opening":false}','4dbce6790c723af76589bcb1f4ee578fed8df1621ebeb12456319a5a7a634e2d');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',25,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[25,23],[6,3]]}','91797c38b9f9f1c369605305c85365bdf8ea86ebe7af8d0901ecaf755aafc691');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',26,'2026-11-30T11:56:48.060961Z','{"by":"black","dice":[3,3],"entropy":"","kind":"rolled","link":null,"opening":false}','940a4ff65a41aea5d621918b5b57498120da2dca633548ee3f884198e2d2deb0');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',27,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"moved","play":[[18,15],[18,15],[7,4],[4,1]]}','bd27560ff7cc66fc6785b382b2e27258920dad25aafb5e4fcffce1733ead31e1');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',28,'2026-11-30T11:56:48.060961Z','{"by":"white","dice":[6,1],"entropy":"","kind":"rolled","link":null,"opening":false}','b603395e2ff51c80a75d6e4533bb8b20863d97380b2d3b4ef6d27d40cdb7c6e1');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',29,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"moved","play":[[8,2],[3,2]]}','81d16f7038a7496730ad999be57924801814d4e3c9e96d3c4db6459ac2b98d83');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',30,'2026-11-30T11:56:48.060961Z','{"by":"black","kind":"doubled"}','a3488a17590f3777d31f54456bf6a189e887d4fa1b7a8a030efad9ec6b8cb952');
INSERT INTO "events" VALUES('8x2v8892zgu9frqbmtrm6r',31,'2026-11-30T11:56:48.060961Z','{"by":"white","kind":"refused"}','51d6893340ad17edcb6adf209008b5b4c58d7cddb076a76cef909039ae71bd01');
CREATE TABLE matches (
	id VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	created_at VARCHAR NOT NULL, 
	updated_at VARCHAR NOT NULL, 
	visibility VARCHAR NOT NULL, 
	sandbox BOOLEAN NOT NULL, 
	imported BOOLEAN NOT NULL, 
	status VARCHAR NOT NULL, 
	length INTEGER, 
	white VARCHAR, 
	black VARCHAR, 
	white_score INTEGER NOT NULL, 
	black_score INTEGER NOT NULL, 
	winner VARCHAR, 
	white_auto_roll BOOLEAN NOT NULL, 
	black_auto_roll BOOLEAN NOT NULL, 
	rematch_by VARCHAR, 
	PRIMARY KEY (id)
);
INSERT INTO "matches" VALUES('6tc3juehd7c97w9c3znat5',15,'2026-11-30T11:56:45.874236Z','2026-11-30T11:56:46.267507Z','public',0,0,'finished',1,'82x2k4pyx3c86jn9kurfzv','ttcb926xhmv53jvwcz3mc7',0,1,'black',0,1,'black');
INSERT INTO "matches" VALUES('n58bdq8fmkgm5xf9zumrxw',13,'2026-11-30T11:56:45.899801Z','2026-11-30T11:56:46.277989Z','public',0,0,'finished',NULL,'82x2k4pyx3c86jn9kurfzv','ttcb926xhmv53jvwcz3mc7',3,0,'white',1,0,'white');
INSERT INTO "matches" VALUES('k5uf7ey47edt4ajbb7kjyx',14,'2026-11-30T11:56:45.920266Z','2026-11-30T11:56:46.243563Z','private',0,0,'playing',3,'82x2k4pyx3c86jn9kurfzv','ttcb926xhmv53jvwcz3mc7',0,0,NULL,1,1,NULL);
INSERT INTO "matches" VALUES('vc2cufzx3qf9a9p27552ge',2,'2026-11-30T11:56:46.254610Z','2026-11-30T11:56:46.254610Z','public',0,0,'waiting',5,'82x2k4pyx3c86jn9kurfzv',NULL,0,0,NULL,1,1,NULL);
INSERT INTO "matches" VALUES('m9prym7e6nn7ewvvumutq2',5,'2026-11-30T11:56:46.311439Z','2026-11-30T11:56:46.311439Z','public',0,0,'playing',NULL,'ttcb926xhmv53jvwcz3mc7','82x2k4pyx3c86jn9kurfzv',0,0,NULL,0,1,NULL);
INSERT INTO "matches" VALUES('jaed5wxzdp55e7rf8tgdrw',5,'2026-11-30T11:56:46.322252Z','2026-11-30T11:56:46.338439Z','public',1,0,'playing',3,'82x2k4pyx3c86jn9kurfzv','ttcb926xhmv53jvwcz3mc7',0,0,NULL,1,1,NULL);
INSERT INTO "matches" VALUES('8x2v8892zgu9frqbmtrm6r',31,'2026-11-30T11:56:48.060961Z','2026-11-30T11:56:48.060961Z','public',0,1,'finished',NULL,'he76y28pubfm4nptktv7zf','ff98nstnnd77mtd746vfaq',0,1,'black',0,0,NULL);
CREATE TABLE players (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "players" VALUES('82x2k4pyx3c86jn9kurfzv','Ann','2026-11-30T11:56:45.844986Z');
INSERT INTO "players" VALUES('ttcb926xhmv53jvwcz3mc7','Böb 🎲 ''x''','2026-11-30T11:56:45.858238Z');
INSERT INTO "players" VALUES('he76y28pubfm4nptktv7zf','White','2026-11-30T11:56:48.061281Z');
INSERT INTO "players" VALUES('ff98nstnnd77mtd746vfaq','Black','2026-11-30T11:56:48.061281Z');
CREATE INDEX ix_matches_status ON matches (status);
CREATE INDEX ix_matches_white ON matches (white);
CREATE INDEX ix_matches_newest ON matches (created_at, id);
CREATE INDEX ix_matches_black ON matches (black);
COMMIT;
